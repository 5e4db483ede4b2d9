//! A throwaway Redis server.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::keeper::{Keeper, free_port};

const START_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A server of its own directory and port on loopback; it ends when it is dropped.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    keeper: Keeper,
}

impl Redis {
    /// A server that keeps nothing over a kill, as many are run.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// One that has on disk what it has answered.
    pub fn start_durable() -> Self {
        Self::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// One that is a whole cluster by itself: every slot is its own, and what a cluster refuses it refuses.
    pub fn start_cluster() -> Self {
        let server =
            Self::start_with(&["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()]);
        let given = server.ask(b"CLUSTER ADDSLOTSRANGE 0 16383\r\n");
        assert_eq!(&given.expect("an answer")[..3], b"+OK");
        let deadline = Instant::now() + START_LIMIT;
        // Until it knows that it is whole it says CLUSTERDOWN.
        while !server.ask(b"GET x\r\n").is_ok_and(|answer| answer.starts_with(b"$-1")) {
            assert!(Instant::now() < deadline, "the cluster did not form: {}", server.keeper.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// A server with more words on its command line (`--requirepass`).
    pub fn start_with(words: &[&str]) -> Self {
        let installed = Command::new("redis-server").arg("--version").output();
        assert!(
            installed.is_ok_and(|run| run.status.success()),
            "redis-server is missing (scripts/setup test)"
        );
        let directory = tempfile::Builder::new().prefix("sunaba-redis-").tempdir_in("/tmp");
        let directory = directory.expect("a directory").keep();
        let (port, folder) = (free_port(), directory.display().to_string());
        let port_word = port.to_string();
        let usual = ["redis-server", "--bind", "127.0.0.1", "--port", &port_word, "--dir", &folder];
        let quiet = ["--daemonize", "no", "--save", "", "--logfile", ""];
        let command: Vec<String> =
            usual.iter().chain(&quiet).chain(words).map(|word| (*word).to_owned()).collect();
        let server = Self { port, keeper: Keeper::new(directory, &command, "TERM") };
        server.revive();
        server
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills it at once.
    pub fn kill(&self) {
        self.keeper.tell("kill");
    }

    /// Stops it without ending it: it keeps its connections and answers nobody.
    pub fn pause(&self) {
        self.keeper.tell("pause");
    }

    /// Lets it go on after [`Redis::pause`].
    pub fn resume(&self) {
        self.keeper.tell("resume");
    }

    /// Starts it (again) on its port and directory and waits until it answers.
    pub fn revive(&self) {
        self.keeper.tell("start");
        let deadline = Instant::now() + START_LIMIT;
        while !self.answers() {
            assert!(Instant::now() < deadline, "Redis did not start: {}", self.keeper.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it takes commands right now. One that wants a password answers too.
    pub fn answers(&self) -> bool {
        self.ask(b"PING\r\n").is_ok_and(|answer| matches!(&answer, b"+PONG" | b"-NOAU"))
    }

    /// The beginning of what it answers.
    fn ask(&self, line: &[u8]) -> std::io::Result<[u8; 5]> {
        let mut stream = TcpStream::connect_timeout(&self.address(), ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(line)?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_run_side_by_side_and_end_with_their_handle() {
        let (one, two) = (Redis::start(), Redis::start_with(&["--requirepass", "pass"]));
        assert_ne!(one.address(), two.address());
        one.kill();
        assert!(!one.answers() && two.answers());
        one.revive();
        assert!(one.answers());
        two.pause();
        assert!(!two.answers() && one.answers());
        two.resume();
        assert!(two.answers());
        let (address, directory) = (two.address(), two.keeper.directory().to_owned());
        drop(two);
        assert!(TcpStream::connect(address).is_err() && !directory.exists());
    }
}
