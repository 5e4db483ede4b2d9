//! The guest's line: more processes beside the command, their streams and their end.

use std::io::{BufRead as _, BufReader, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use crate::support::PATIENCE;

/// A guest in namespaces of its own, with this test in the shim's place.
struct Guest {
    child: Child,
    line: UnixStream,
    words: BufReader<UnixStream>,
}

impl Guest {
    fn start(script: &str) -> Self {
        let bubblewrap = sunaba_sandbox::find_bubblewrap().expect("bubblewrap is installed");
        let (line, guests) = UnixStream::pair().unwrap();
        let child = Command::new(bubblewrap)
            .args([
                "--unshare-all",
                "--die-with-parent",
                "--uid",
                "1000",
                "--gid",
                "1000",
                "--cap-drop",
                "ALL",
            ])
            .args(["--ro-bind", "/", "/", "--proc", "/proc"])
            .args(["--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "KEPT", "from the start"])
            .args(["--ro-bind", env!("CARGO_BIN_EXE_sunaba-worker"), "/tmp/worker", "--chdir", "/tmp"])
            .args(["--", "/tmp/worker", "guest", "--", "/bin/sh", "-c", script])
            .stdin(Stdio::from(OwnedFd::from(guests)))
            .spawn()
            .unwrap();
        line.set_read_timeout(Some(PATIENCE)).unwrap();
        let words = BufReader::new(line.try_clone().unwrap());
        let mut guest = Self { child, line, words };
        assert_eq!(guest.word(), json!({"guest": "began"}));
        guest
    }

    fn word(&mut self) -> Value {
        let mut text = String::new();
        self.words.read_line(&mut text).expect("a word in time");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    fn say(&mut self, order: &Value) {
        self.line.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// Starts one more process and gives our ends of its three streams.
    fn exec(&self, order: &Value) -> [UnixStream; 3] {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
        let files: Vec<_> = theirs.iter().map(|end| end.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
        let text = format!("{order}\n");
        let sent = sendmsg(&self.line, &[IoSlice::new(text.as_bytes())], &mut beside, SendFlags::empty());
        assert_eq!(sent.unwrap(), text.len());
        for stream in &ours {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        ours.try_into().unwrap()
    }

    fn end(mut self) {
        self.say(&json!({"order": "terminate"}));
        assert_eq!(self.word(), json!({"guest": "exited", "code": null, "signal": 15}));
        self.child.wait().unwrap();
    }
}

fn shell(id: u64, script: &str) -> Value {
    json!({"order": "exec", "id": id, "command": ["/bin/sh", "-c", script], "env": {"GIVEN": "now"}})
}

#[test]
fn one_more_process_has_its_streams_its_variables_and_its_end() {
    let mut guest = Guest::start("exec sleep 600");
    let script = "cat; echo $KEPT, $GIVEN; pwd; echo aside >&2; exit 7";
    let [mut input, mut output, mut errors] = guest.exec(&shell(1, script));
    input.write_all(b"told\n").unwrap();
    drop(input);
    assert_eq!(guest.word(), json!({"guest": "exec_exited", "id": 1, "code": 7, "signal": null}));
    let (mut said, mut aside) = (String::new(), String::new());
    output.read_to_string(&mut said).unwrap();
    errors.read_to_string(&mut aside).unwrap();
    assert_eq!((said.as_str(), aside.as_str()), ("told\nfrom the start, now\n/tmp\n", "aside\n"));
    guest.exec(&shell(2, "kill -9 $$"));
    assert_eq!(guest.word(), json!({"guest": "exec_exited", "id": 2, "code": null, "signal": 9}));
    guest.exec(&json!({"order": "exec", "id": 3, "command": ["/no/such/program"]}));
    assert_eq!(guest.word()["code"], 127);
    guest.exec(&json!({"order": "exec", "id": 4, "command": ["true"], "cwd": "/no/such/place"}));
    let word = guest.word();
    assert!(word["error"].as_str().unwrap().contains("/no/such/place"), "{word}");
    guest.end();
}

#[test]
fn killing_one_ends_all_it_started_and_nothing_else() {
    let mut guest = Guest::start("exec sleep 600");
    let [_input, mut kept, _errors] = guest.exec(&shell(1, "sleep 600 & echo kept; wait"));
    // One that left its session and one whose parents are gone; both ignore what can be ignored.
    let escaping =
        "trap '' TERM HUP; setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; echo up; sleep 600";
    let [_input2, mut output, _errors2] = guest.exec(&shell(2, escaping));
    for (stream, expected) in [(&mut kept, b"kept\n".as_slice()), (&mut output, b"up\n")] {
        let mut said = vec![0; expected.len()];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(said, expected);
    }
    let [_i, mut counted, _e] =
        guest.exec(&shell(3, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 600' | wc -l"));
    assert_eq!(guest.word()["id"], 3);
    let mut before = String::new();
    counted.read_to_string(&mut before).unwrap();
    guest.say(&json!({"order": "kill_exec", "id": 2}));
    assert_eq!(guest.word(), json!({"guest": "exec_exited", "id": 2, "code": null, "signal": 9}));
    // The end of the stream: nobody is left who could write to it.
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("everything that held the stream is gone");
    let [_i, mut counted, _e] = guest.exec(&shell(4, "cat /proc/[0-9]*/comm | grep -c sleep"));
    assert_eq!(guest.word()["id"], 4);
    let mut after = String::new();
    counted.read_to_string(&mut after).unwrap();
    assert_eq!(after.trim(), "2", "the command and the other exec's child go on (before: {before})");
    guest.say(&json!({"order": "kill_exec", "id": 2}));
    guest.end();
}

#[test]
fn the_guest_itself_cannot_be_looked_into() {
    let mut guest = Guest::start("exec sleep 600");
    // The guest is the holder's parent.
    let script = "guest=$(cut -d' ' -f4 /proc/$PPID/stat); ls -l /proc/$guest/fd >/dev/null 2>&1 && echo open || echo shut";
    let [_input, mut output, _errors] = guest.exec(&shell(1, script));
    assert_eq!(guest.word()["code"], 0);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert_eq!(said, "shut\n");
    guest.end();
}
