//! Programs that people use run behind all walls, as they do outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sunaba_sandbox::{Bind, StartRequest};

use crate::support::{Host, shell};
use crate::trial;

/// Runs a script over some files; it must end well.
async fn works(files: &[(&str, &str)], binds: Vec<Bind>, script: &str) -> String {
    let host = Host::new().await;
    let script = format!("set -eu\n{script}");
    let request = StartRequest { binds, ..shell(&script) };
    let (exit, output) = trial::run(&host.provider, request, |places| {
        for (name, content) in files {
            trial::put(places, name, content);
        }
    })
    .await
    .unwrap();
    assert_eq!((exit.code, exit.signal), (Some(0), None), "{output}");
    output
}

/// Whether the host has a program where a sandbox sees it. Says what is left out otherwise.
#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
fn has(program: &str) -> bool {
    let found = ["/usr/bin", "/usr/local/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        println!("left out: {program} is not installed in /usr");
    }
    found
}

#[tokio::test]
async fn git_commits_and_clones() {
    let script = "git config --global user.name A; git config --global user.email a@example.invalid
        git init -q -b main one; cd one; echo x > f; git add f; git commit -qm first; git gc -q; cd ..
        git clone -q one two; cd two; echo y > g; git add g; git commit -qm second; git push -q origin HEAD:other
        git -C ../one log --format=%s other | tr '\\n' ' '; git worktree add -q ../three; git fsck";
    let output = works(&[], Vec::new(), script).await;
    assert!(output.contains("second first"), "{output}");
}

const C_PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void *half(void *sum) { for (int i = 0; i < 1000; i++) __sync_fetch_and_add((int *)sum, 1); return 0; }
int main(void) {
    int sum = 0; pthread_t threads[4];
    for (int i = 0; i < 4; i++) if (pthread_create(&threads[i], 0, half, &sum)) return 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    if (fork() == 0) _exit(3);
    int status; wait(&status);
    printf("%d %d\n", sum, WEXITSTATUS(status));
    return 0;
}
"#;

#[tokio::test]
async fn a_c_compiler_and_make_build_what_runs() {
    if !has("gcc") || !has("make") {
        return;
    }
    let makefile = "all: a b\n%: %.c\n\tgcc -O1 -pthread -o $@ $<\n";
    let files = [("a.c", C_PROGRAM), ("b.c", C_PROGRAM), ("Makefile", makefile)];
    assert!(works(&files, Vec::new(), "make -j4; ./a; ./b").await.ends_with("4000 3\n4000 3\n"));
}

const PYTHON_PROGRAM: &str = r#"
import concurrent.futures, multiprocessing, os, socket, sqlite3, ssl, subprocess, tempfile, threading
def square(n): return n * n
if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(4) as pool: assert sum(pool.map(square, range(10))) == 285
    with multiprocessing.Pool(2) as pool: assert sum(pool.map(square, range(10))) == 285
    assert subprocess.run(["sh", "-c", "echo hi"], capture_output=True).stdout == b"hi\n"
    with tempfile.NamedTemporaryFile() as file: file.write(b"x")
    database = sqlite3.connect("db"); database.execute("pragma journal_mode=wal"); database.execute("create table t(x)"); database.commit()
    server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname()).close()
    assert socket.if_nameindex(); ssl.create_default_context(); print("fine", os.cpu_count() > 0)
"#;

#[tokio::test]
async fn python_runs_threads_processes_and_environments() {
    if !has("python3") {
        return;
    }
    let script = "/usr/bin/python3 p.py; /usr/bin/python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix)'";
    assert_eq!(works(&[("p.py", PYTHON_PROGRAM)], Vec::new(), script).await, "fine True\n/workspace/v\n");
}

const NODE_PROGRAM: &str = r#"
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { execFileSync } = require('child_process'), fs = require('fs'), http = require('http'), os = require('os');
if (!isMainThread) { parentPort.postMessage(6 * 7); } else {
  const bytes = new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11]);
  (async () => {
    const { instance } = await WebAssembly.instantiate(bytes);
    const answer = await new Promise((done, fail) => new Worker(__filename).on('message', done).on('error', fail));
    const shell = execFileSync('sh', ['-c', 'echo child']).toString().trim();
    await fs.promises.writeFile('made', 'x'); fs.watch('.').close();
    const server = http.createServer((_, reply) => reply.end('served')).listen(0, '127.0.0.1');
    await new Promise(done => server.on('listening', done));
    const reply = await fetch(`http://127.0.0.1:${server.address().port}/`); const text = await reply.text(); server.close();
    console.log(instance.exports.add(2, 3), answer, shell, text, Object.keys(os.networkInterfaces()).join());
    process.exit(0);
  })();
}
"#;

#[tokio::test]
async fn node_runs_workers_and_web_assembly() {
    if !has("node") {
        return;
    }
    assert_eq!(works(&[("n.js", NODE_PROGRAM)], Vec::new(), "node n.js").await, "5 42 child served lo\n");
}

#[tokio::test]
async fn npm_packs_and_installs() {
    if !has("npm") {
        return;
    }
    let script = "mkdir one two; cd one; npm init -y --offline >/dev/null; echo 'module.exports = 7' > index.js; npm pack --offline --silent
        cd ../two; npm init -y --offline >/dev/null; npm install --offline --no-audit --no-fund --silent ../one/one-1.0.0.tgz
        node -e 'console.log(require(\"one\"))'; rm -rf node_modules; npm ci --offline --no-audit --silent; node -p 'require(\"one\")'";
    assert!(works(&[], Vec::new(), script).await.ends_with("7\n7\n"));
}

/// Shows a directory of the host at a place of its own.
fn at(source: &Path, target: &str) -> Bind {
    Bind { source: source.to_str().unwrap().to_owned(), target: target.to_owned(), writable: false }
}

#[tokio::test]
async fn cargo_builds_and_tests_a_crate() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).stderr(Stdio::null()).output();
    let sysroot = sysroot.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let Some(sysroot) = sysroot.ok().filter(|path| path.join("bin/cargo").exists()) else {
        println!("left out: no Rust toolchain that this user can read");
        return;
    };
    let files = [
        ("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("build.rs", "fn main() { println!(\"cargo::rustc-env=MADE=by the build script\"); }\n"),
        (
            "src/main.rs",
            "fn main() { let t = std::thread::spawn(|| env!(\"MADE\")); println!(\"{}\", t.join().unwrap()); }\n\
             #[test] fn adds() { assert_eq!(2 + 2, 4); }\n",
        ),
    ];
    let script = "export PATH=/opt/rust/bin:$PATH; cargo --offline -q run; cargo --offline -q test";
    let output = works(&files, vec![at(&sysroot, "/opt/rust")], script).await;
    assert!(output.contains("by the build script") && output.contains("1 passed"), "{output}");
}

#[tokio::test]
async fn debuggers_work_on_the_sandboxs_own_processes() {
    if has("strace") {
        let output =
            works(&[], Vec::new(), "strace -f -o trace sh -c 'cat /etc/hostname'; grep -c openat trace")
                .await;
        assert!(output.starts_with("sbx-"), "{output}");
    }
    if has("gdb") {
        let output =
            works(&[], Vec::new(), "gdb -q -batch -ex run -ex 'info program' --args /bin/true 2>&1").await;
        assert!(output.contains("exited normally"), "{output}");
    }
}

/// The version that runs on the oldest supported Node.
const CLAUDE: &str = "@anthropic-ai/claude-code@2.1.197";

/// The Claude Code program; installed where build results go, if it can be had.
fn claude() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let place = tools.join("claude");
    let platform = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = format!("node_modules/@anthropic-ai/claude-code-linux-{platform}/claude");
    if !place.join(&program).exists() {
        let made = tempfile::tempdir_in(&tools).or_else(|_| {
            std::fs::create_dir_all(&tools)?;
            tempfile::tempdir_in(&tools)
        });
        let fresh = made.ok()?.keep();
        let installed = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
            .arg(&fresh)
            .arg(CLAUDE)
            .stdout(Stdio::null())
            .status();
        if !installed.is_ok_and(|status| status.success()) || std::fs::rename(&fresh, &place).is_err() {
            // Another test may have been faster, or there is no registry.
            let _ = std::fs::remove_dir_all(&fresh);
        }
    }
    std::fs::canonicalize(place.join(program)).ok()
}

/// A model that asks for one command and then is done.
const MODEL: &str = r#"
import http.server, json
class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    def log_message(self, *_): pass
    def do_HEAD(self): self.send_response(200); self.end_headers()
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "count_tokens" in self.path: return self.plain({"input_tokens": 10})
        text = json.dumps(asked["messages"])
        tools = [tool["name"] for tool in asked.get("tools", [])]
        if "Bash" in tools and "tool_result" not in text:
            block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": "touch made && echo from the tool", "description": "make a file"})}
            stop = "tool_use"
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": "all is done"}
            stop = "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not asked.get("stream"):
            return self.plain({**message, "content": [{"type": "text", "text": "all is done"}], "stop_reason": "end_turn"})
        self.send_response(200); self.send_header("content-type", "text/event-stream"); self.end_headers()
        for event in [{"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": block},
                      {"type": "content_block_delta", "index": 0, "delta": delta}, {"type": "content_block_stop", "index": 0},
                      {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}, {"type": "message_stop"}]:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    def plain(self, answer):
        self.send_response(200); self.send_header("content-type", "application/json"); self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Model)
open("listening", "w").close()
server.serve_forever()
"#;

#[tokio::test]
async fn claude_code_runs_and_uses_its_tools() {
    let Some(program) = tokio::task::spawn_blocking(claude).await.unwrap() else {
        println!("left out: {CLAUDE} could not be installed here");
        return;
    };
    let script = "/opt/claude --version
        /usr/bin/python3 model.py & until [ -e listening ]; do sleep 0.05; done
        export ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=sk-dummy DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1 \
            DISABLE_ERROR_REPORTING=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
        timeout 120 /opt/claude -p 'make a file' --output-format stream-json --verbose --permission-mode bypassPermissions </dev/null
        [ -e made ] && echo the file is made; kill $!";
    let output = works(&[("model.py", MODEL)], vec![at(&program, "/opt/claude")], script).await;
    for words in ["2.1.197", "from the tool", "all is done", "the file is made", "\"subtype\":\"success\""] {
        assert!(output.contains(words), "{words}: {output}");
    }
}
