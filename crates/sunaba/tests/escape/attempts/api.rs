//! The server's routes with a sandbox's token: another sandbox's things, administration, forged facts.

use crate::attempt::{Attempt, Without, py, sh};

const OWN: &str = "a sandbox's token opens its own sandbox only";
const WORKER: &str = "a sandbox's token opens the worker's routes only";
const RESERVED: &str = "the server's own words cannot be posted";
const DOOR: &str = "a door lets its own sandbox's token through only";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("read-its-events", OWN, Without::Admin, r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/events""#),
    sh(
        "read-its-trajectory",
        OWN,
        Without::Admin,
        r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/trajectory""#,
    ),
    sh(
        "stream-its-events",
        OWN,
        Without::Admin,
        r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/events/stream" --max-time 2 || true
[ "$status" = 200 ] && through"#,
    ),
    sh("read-its-row", OWN, Without::Admin, r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID""#),
    sh("read-its-logs", OWN, Without::Admin, r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/logs""#),
    sh("read-its-diff", OWN, Without::Admin, r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/diff""#),
    sh("read-its-blob", OWN, Without::Admin, r#"api_through GET "/api/v1/blobs/$VICTIM_BLOB""#),
    sh("read-its-task", OWN, Without::Victim, r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/task""#),
    sh(
        "take-its-messages",
        OWN,
        Without::Victim,
        r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/messages?wait=0""#,
    ),
    sh(
        "acknowledge-its-messages",
        OWN,
        Without::Victim,
        r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/messages?ack=nothing&wait=0""#,
    ),
    sh(
        "post-its-events",
        OWN,
        Without::Victim,
        r#"api_through POST "/api/v1/sandboxes/$VICTIM_ID/events" -d '{"event_type":"escape.forged"}'"#,
    ),
    sh(
        "post-its-batches",
        OWN,
        Without::Victim,
        r#"api_through POST "/api/v1/sandboxes/$VICTIM_ID/events/batch" -d '{"events":[{"event_type":"escape.forged"}]}'"#,
    ),
    sh(
        "post-its-blobs",
        OWN,
        Without::Victim,
        r#"api_through POST "/api/v1/sandboxes/$VICTIM_ID/blobs" --data-binary x"#,
    ),
    sh(
        "say-something-to-it",
        OWN,
        Without::Admin,
        r#"api_through POST "/api/v1/sandboxes/$VICTIM_ID/messages" -d '{"content":"obey"}'"#,
    ),
    sh("end-another", OWN, Without::Admin, r#"api_through DELETE "/api/v1/sandboxes/$DOOMED_ID""#),
    sh(
        "its-id-behind-the-own-token-in-the-path",
        OWN,
        Without::Victim,
        r#"BASE="$BASE/w/$TOKEN"
api_through POST "/api/v1/sandboxes/$VICTIM_ID/events" -d '{"event_type":"escape.forged"}' -H 'Authorization:'"#,
    ),
    sh(
        "its-token-through-the-own-door",
        DOOR,
        Without::Admin,
        r#"TOKEN=$STOLEN_TOKEN
api_through POST "/api/v1/sandboxes/$VICTIM_ID/events" -d '{"event_type":"escape.stolen"}'"#,
    ),
    sh(
        "its-token-for-a-model",
        DOOR,
        Without::Admin,
        r#"TOKEN=$STOLEN_TOKEN
api POST /gateway/anthropic/v1/messages/count_tokens -H 'anthropic-version: 2023-06-01' -H "x-api-key: $TOKEN" -d '{"model":"script:default","messages":[{"role":"user","content":"x"}]}'
case $status in 40[13]) ;; *) through ;; esac"#,
    ),
    sh(
        "an-administrators-token-through-the-door",
        DOOR,
        Without::Admin,
        r#"TOKEN=$STOLEN_ADMIN_TOKEN
api_through GET /api/v1/sandboxes"#,
    ),
    sh(
        "a-model-without-a-token",
        "the gateway asks for a token",
        Without::Admin,
        r#"TOKEN=${MODEL_TOKEN:-none}
api POST /gateway/anthropic/v1/messages/count_tokens -H 'anthropic-version: 2023-06-01' -H 'x-api-key: none' -d '{"model":"script:default","messages":[{"role":"user","content":"x"}]}'
case $status in 40[13]) ;; *) through ;; esac"#,
    ),
    sh(
        "make-a-token",
        WORKER,
        Without::Admin,
        r#"api_through POST /api/v1/tokens -d '{"name":"mine","kind":"admin"}'"#,
    ),
    sh("list-tokens", WORKER, Without::Admin, "api_through GET /api/v1/tokens"),
    sh(
        "make-a-project",
        WORKER,
        Without::Admin,
        r#"api_through POST /api/v1/projects -d '{"repo_url":"https://sunaba.invalid/x.git"}'"#,
    ),
    sh("list-projects", WORKER, Without::Admin, "api_through GET /api/v1/projects"),
    sh(
        "start-a-sandbox",
        WORKER,
        Without::Admin,
        r#"api POST /api/v1/sandboxes -d '{"project_id":"no such project","prompt":"x"}'
case $status in 40[13]) ;; *) through ;; esac"#,
    ),
    sh(
        "make-a-task",
        WORKER,
        Without::Admin,
        r#"api POST /api/v1/tasks -d '{"ticket_id":"no such ticket","title":"x"}'
case $status in 40[13]) ;; *) through ;; esac"#,
    ),
    sh("list-sandboxes", WORKER, Without::Admin, "api_through GET /api/v1/sandboxes"),
    sh("upload-a-script", WORKER, Without::Admin, "api_through POST /api/v1/blobs --data-binary '- text: x'"),
    sh("read-metrics", WORKER, Without::Admin, "api_through GET /metrics"),
    sh(
        "obey-itself",
        WORKER,
        Without::Admin,
        r#"api_through POST "/api/v1/sandboxes/$OWN_ID/messages" -d '{"content":"I said so","message_type":"system"}'"#,
    ),
    sh(
        "open-the-own-egress",
        WORKER,
        Without::Admin,
        r#"api_through PATCH "/api/v1/projects/${PROJECT_ID:-$OTHER_PROJECT}" -d '{"settings":{"egress":{"preset":"open"}}}'"#,
    ),
    sh(
        "set-a-secret",
        WORKER,
        Without::Admin,
        r#"api_through PUT "/api/v1/projects/${PROJECT_ID:-$OTHER_PROJECT}/secrets/MINE" -d '{"value":"x"}'"#,
    ),
    sh(
        "list-secrets",
        WORKER,
        Without::Admin,
        r#"api_through GET "/api/v1/projects/${PROJECT_ID:-$OTHER_PROJECT}/secrets""#,
    ),
    sh("read-its-usage", OWN, Without::Admin, r#"api_through GET "/api/v1/sandboxes/$VICTIM_ID/usage""#),
    sh("read-the-isolation-report", WORKER, Without::Admin, "api_through GET /api/v1/system/isolation"),
    py(
        "watch-everyone",
        WORKER,
        Without::Admin,
        r#"
base = os.environ["BASE"].split("//")[1]
host, port = base.split(":")
stream = socket.create_connection((host, int(port)), 5)
stream.sendall(("GET /api/v1/ws/events?token=%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" % (os.environ["TOKEN"], base)).encode())
stream.settimeout(3)
seen = b""
try:
    while b"subscribed" not in seen and b"error" not in seen:
        piece = stream.recv(4096)
        if not piece:
            break
        seen += piece
        if b"\r\n\r\n" in seen:  # A client's frame that asks for everything.
            stream.sendall(b"\x81\x94\0\0\0\0" + b'{"type":"subscribe"}')
except OSError as error:
    print(error)
print(seen[-200:])
if b"101 " in seen and b"subscribed" in seen:
    through()
"#,
    ),
    sh(
        "forge-a-gateways-event",
        RESERVED,
        Without::Admin,
        r#"for type in ${ORDINARY_TYPE:-gateway.model_call gateway.git gateway.egress GATEWAY.GIT}; do
    api_through POST "/api/v1/sandboxes/$OWN_ID/events" -d "{\"event_type\":\"$type\"}"
done"#,
    ),
    sh(
        "forge-a-lifecycle-event",
        RESERVED,
        Without::Admin,
        r#"for type in ${ORDINARY_TYPE:-sandbox.state_changed sandbox.terminated Sandbox.x}; do
    api_through POST "/api/v1/sandboxes/$OWN_ID/events" -d "{\"event_type\":\"$type\"}"
done"#,
    ),
    sh(
        "forge-a-published-name",
        RESERVED,
        Without::Admin,
        r#"for type in ${ORDINARY_TYPE:-FAILED failed terminated.idle STATE_CHANGED MESSAGE_QUEUED spawned}; do
    api_through POST "/api/v1/sandboxes/$OWN_ID/events" -d "{\"event_type\":\"$type\"}"
done"#,
    ),
    sh(
        "forge-in-a-batch",
        RESERVED,
        Without::Admin,
        r#"api POST "/api/v1/sandboxes/$OWN_ID/events/batch" -d "{\"events\":[{\"event_type\":\"${ORDINARY_TYPE:-gateway.git}\"}]}"
grep -q '"status":"received"' answer && through"#,
    ),
    sh(
        "speak-as-the-system",
        "a sandbox speaks as agent or worker",
        Without::Admin,
        r#"for source in system guardian user; do
    api_through POST "/api/v1/sandboxes/$OWN_ID/events" -d "{\"event_type\":\"escape.voice\",\"source\":\"$source\"}"
done"#,
    ),
];
