//! Serves a mirror over smart HTTP: git does the talking, this only frames and pipes.
//!
//! Who may push what is decided by the caller, before [`Mirror::rpc`] is called.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::command::{Git, LONG, SHORT, collect_stderr};
use crate::pktline::pkt_line;
use crate::{Error, Mirror, Result};

/// What a client asks of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Fetch and clone.
    UploadPack,
    /// Push.
    ReceivePack,
}

impl Service {
    /// Reads the name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    const fn operation(self) -> &'static str {
        match self {
            Self::UploadPack => "upload-pack",
            Self::ReceivePack => "receive-pack",
        }
    }
}

impl Mirror {
    /// The answer to `GET info/refs?service=…`. `protocol` is the client's `Git-Protocol` header.
    pub async fn advertise(&self, service: Service, protocol: Option<&str>) -> Result<Vec<u8>> {
        let protocol = accepted_protocol(service, protocol);
        let refs = self.stateless(service, protocol).arg("--advertise-refs").arg(self.dir()).bytes().await?;
        let mut answer = Vec::new();
        if protocol != Some("version=2") {
            answer.extend(pkt_line(format!("# service={}\n", service.as_str()).as_bytes()));
            answer.extend(b"0000");
        }
        answer.extend(refs);
        Ok(answer)
    }

    /// Answers one request: its body goes to git, git's answer to `output`.
    ///
    /// Ends when git does. A client that goes away ends git, because writing fails.
    pub async fn rpc(
        &self,
        service: Service,
        protocol: Option<&str>,
        input: impl AsyncRead + Unpin + Send,
        output: impl AsyncWrite + Unpin + Send,
    ) -> Result<()> {
        let call = self.stateless(service, accepted_protocol(service, protocol)).arg(self.dir()).limit(LONG);
        match tokio::time::timeout(call.time_limit(), talk(&call, input, output)).await {
            Ok(result) => result,
            Err(_) => Err(call.timed_out()),
        }
    }

    fn stateless(&self, service: Service, protocol: Option<&str>) -> Git {
        let call = Git::at(self.dir(), service.operation()).arg("--stateless-rpc").limit(SHORT);
        match protocol {
            Some(version) => call.env("GIT_PROTOCOL", version),
            None => call,
        }
    }
}

/// Git has no push in version 2; anything unknown falls back to the oldest.
fn accepted_protocol(service: Service, asked: Option<&str>) -> Option<&'static str> {
    let version = asked?.split(':').find_map(|part| part.strip_prefix("version="))?;
    match (service, version) {
        (Service::UploadPack, "2") => Some("version=2"),
        (_, "1") => Some("version=1"),
        _ => None,
    }
}

async fn talk(
    call: &Git,
    mut input: impl AsyncRead + Unpin + Send,
    mut output: impl AsyncWrite + Unpin + Send,
) -> Result<()> {
    let mut child = call.spawn(Stdio::piped(), Stdio::piped())?;
    let (mut to_git, mut from_git) = (child.stdin.take(), child.stdout.take());
    let feed = async {
        if let Some(pipe) = to_git.as_mut() {
            // Git may answer before it has read everything; its exit status decides.
            let _ = tokio::io::copy(&mut input, pipe).await;
        }
        drop(to_git.take());
        Ok(())
    };
    let answer = async {
        if let Some(pipe) = from_git.as_mut() {
            tokio::io::copy(pipe, &mut output).await.map_err(Error::io("answering the client"))?;
        }
        output.shutdown().await.map_err(Error::io("answering the client"))
    };
    let complaints = async { Ok(collect_stderr(child.stderr.take()).await) };
    let ((), (), stderr) = tokio::try_join!(feed, answer, complaints)?;
    let status = child.wait().await.map_err(Error::io("waiting for git"))?;
    if status.success() { Ok(()) } else { Err(call.failed(&stderr)) }
}
