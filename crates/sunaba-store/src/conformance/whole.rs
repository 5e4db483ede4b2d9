//! The whole of a store: read in one moment, and something of everything to move.

use serde_json::{Value, json};
use sunaba_engine::SandboxTrigger;
use sunaba_types::limits::EVENT_PAYLOAD_MAX_BYTES;
use sunaba_types::{
    BlobHash, Clock as _, Decision, MessageType, NewAnswer, NewQuestion, NodeId, NodeReport, Project, Role,
    Sandbox, SandboxId, SandboxState, TokenKind,
};

use super::world::{World, event, new_sandbox, own};
use crate::transfer::{BATCH_ROWS, Cell, Source, Sums, TABLES, Table};
use crate::{
    NewProject, NewToken, Reserve, SandboxFilter, Settlement, Spender, Store, Suspension, TakeMode,
    TaskFilter, Waits, Writer,
};

/// Payloads that are easily lost or changed on the way.
fn odd() -> Vec<Value> {
    let largest = "ä".repeat((EVENT_PAYLOAD_MAX_BYTES - 20) / 2);
    vec![
        json!({ "text": "\u{1f980} \u{202e}\u{2028}\u{7f}\u{1b}[2J" }),
        json!({ "letters": "a\u{1}b\t", "quotes": "'\"\\;--" }),
        json!({ "numbers": [0.1, 1e300, -0.0, i64::MIN, u64::MAX] }),
        json!({ "text": largest }),
        json!({}),
    ]
}

/// Fills a store through its port: something of everything, sandboxes and messages in every state.
pub async fn fill(world: &World) {
    let node = entered(world).await;
    let project = world.project("/a repository").await;
    let elsewhere = NewProject {
        name: "elsewhere".to_owned(),
        repo_path: None,
        repo_url: Some("https://example.org/x.git".to_owned()),
        default_branch: "main".to_owned(),
        settings: project.settings.clone(),
    };
    world.store.ensure_project(elsewhere).await.expect("a project");
    world.store.ensure_home(&project.id, &node).await.expect("a home");
    world.store.put_secret(&project.id, "GIT_TOKEN", &[0, 1, 0xff, 0xfe]).await.expect("a secret");
    world.store.set_setting_once("a setting", "its value\n").await.expect("a setting");
    tokens(world, &project).await;
    for state in SandboxState::ALL {
        let sandbox = sandbox_in(world, &project, *state).await;
        spend(world, &sandbox, &node).await;
        ask(world, &sandbox).await;
    }
    let (_, talking) = world.running().await;
    let transcript = super::sessions::transcript(&talking, "s", "said \u{1f980}", 1);
    world.store.put_transcript(transcript, Writer::Operator).await.expect("a conversation");
    let asked = world.ask(&talking, "a", "\u{1f980}").await;
    let suspension = Suspension { waits: Waits::Input, reason: "asks".to_owned() };
    world.store.suspend(&talking.id, suspension).await.expect("it waits");
    world.store.answer_question(&asked.id, super::questions::allow()).await.expect("an answer");
    let talkative =
        world.external(odd().into_iter().map(|payload| event("agent.odd", payload)).collect()).await;
    messages(world, &talkative).await;
    search_without_result(world, &talkative).await;
    let many = (0..2500).map(|n| event("agent.message", json!({ "n": n, "turn": n / 100 }))).collect();
    world.external_more(&talkative, many).await;
    let blob = BlobHash::of(b"bytes");
    world.store.record_blob(&blob, 5, Some(&talkative), Writer::Operator).await.expect("a blob");
    world.store.record_blob(&blob, 5, None, Writer::Operator).await.expect("a blob");
}

async fn entered(world: &World) -> NodeId {
    let report = NodeReport {
        id: NodeId::generate(),
        instance: "first".to_owned(),
        host: "here".to_owned(),
        address: "http://127.0.0.1:1".to_owned(),
        version: "1.2.3".to_owned(),
        roles: vec![Role::Api],
        providers: vec!["local".to_owned()],
        max_sandboxes: 7,
        loops: json!({ "look": { "age_ms": 3 } }),
        started_at: world.clock.now(),
    };
    world.store.enter_node(&report).await.expect("a node");
    world.store.leave_node(&report.id, &report.instance).await.expect("it leaves");
    report.id
}

async fn tokens(world: &World, project: &Project) {
    let token = NewToken {
        hash: [7; 32],
        name: "the \"robot\"".to_owned(),
        kind: TokenKind::Personal,
        scopes: vec!["write".to_owned(), "read".to_owned()],
        projects: vec![project.id.clone()],
        sandbox_id: None,
        attempt: None,
        expires_at: Some(world.clock.now()),
    };
    let admin =
        NewToken { hash: [8; 32], kind: TokenKind::Admin, scopes: vec![], projects: vec![], ..token.clone() };
    world.store.create_token(token).await.expect("a token");
    let admin = world.store.create_token(admin).await.expect("a token");
    world.store.revoke_token(&admin.id).await.expect("it was there");
}

async fn sandbox_in(world: &World, project: &Project, state: SandboxState) -> Sandbox {
    use SandboxTrigger as T;
    let steps: &[T] = match state {
        SandboxState::Pending => &[],
        SandboxState::Creating => &[T::Create],
        SandboxState::Running => &[T::Create, T::Heard],
        SandboxState::Completing => &[T::Create, T::Heard, T::AgentDone],
        SandboxState::Completed => &[T::Create, T::Heard, T::AgentDone, T::ResultRecorded],
        SandboxState::Failed => &[T::Create, T::Fail],
        SandboxState::Cancelled => &[T::Cancel],
    };
    let task = world.task_in(project).await;
    let sandbox = world.assign(&task.id).await;
    for step in steps {
        world.pass(1);
        world.step(&sandbox.id, *step).await;
    }
    world.get_sandbox(&sandbox.id).await
}

/// One question that is answered and one that is open, where the sandbox still may.
async fn ask(world: &World, sandbox: &Sandbox) {
    if sandbox.state.is_terminal() {
        return;
    }
    let question = |name: &str| NewQuestion {
        sandbox_id: sandbox.id.clone(),
        client_id: name.to_owned(),
        tool: "Bash".to_owned(),
        tool_use_id: "toolu_1".to_owned(),
        input: json!({ "command": "echo '\"ä\u{1}" }),
    };
    let answered = world.store.ask_question(own(sandbox), question("answered")).await.expect("it may ask");
    world.store.ask_question(own(sandbox), question("open")).await.expect("it may ask");
    let answer = NewAnswer {
        decision: Decision::Allow,
        updated_input: Some(json!({ "command": "true" })),
        message: None,
        remember: None,
        answered_by: "ada".to_owned(),
    };
    world.store.answer_question(&answered.id, answer).await.expect("it is open");
}

/// One call that is settled and one that is open, where the sandbox still may.
async fn spend(world: &World, sandbox: &Sandbox, node: &NodeId) {
    let call = Reserve {
        sandbox_id: sandbox.id.clone(),
        attempt: sandbox.attempt,
        node_id: Some(node.clone()),
        dialect: "anthropic".to_owned(),
        model: "large".to_owned(),
        least_micros: 1,
        most_micros: 5000,
    };
    if sandbox.state.is_terminal() {
        return;
    }
    let settled = world.store.reserve_call(call.clone()).await.expect("there is room");
    world.store.reserve_call(call).await.expect("there is room");
    let cost = Settlement {
        cost_micros: 1234,
        output_tokens: 5,
        known_by: "usage".to_owned(),
        ..Settlement::default()
    };
    world.store.settle_call(&settled.id, cost).await.expect("it was open");
}

/// Consumed, handed over, queued; and expired, with a sandbox that ended.
async fn messages(world: &World, id: &SandboxId) {
    let user = MessageType::UserMessage;
    let eaten = world.say(id, user, "eaten").await;
    world.say(id, MessageType::Guidance, "held \u{1f980}").await;
    assert_eq!(world.take(id, TakeMode::Legacy).await.len(), 2);
    let injected = event("agent.message_injected", json!({ "message_id": eaten.id, "content": "eaten" }));
    world.external_more(id, vec![injected]).await;
    world.say(id, MessageType::Interrupt, "waits").await;
    let over = world.store.create_sandbox(new_sandbox(None)).await.expect("a sandbox");
    world.say(&over.id, user, "never taken").await;
    world.step(&over.id, SandboxTrigger::Cancel).await;
}

async fn search_without_result(world: &World, id: &SandboxId) {
    let call = json!({ "tool": "Grep", "tool_use_id": "toolu_1", "input": { "pattern": "x" } });
    world.external_more(id, vec![event("agent.tool_use", call)]).await;
}

/// What the port tells of everything, in words that can be compared. Ages are left out.
pub async fn told(store: &dyn Store) -> Vec<String> {
    let mut told = Vec::new();
    let mut say = |words: &dyn std::fmt::Debug| told.push(format!("{words:?}"));
    let projects = store.list_projects(None, None, 100).await.expect("up");
    for project in &projects {
        let id = &project.id;
        say(&(project, store.list_secrets(id).await.expect("up")));
        say(&store.find_secret(id, "GIT_TOKEN").await.expect("up"));
        say(&store.spending(&Spender::Project(id.clone())).await.expect("up"));
    }
    say(&store.list_tickets(None, None, 100).await.expect("up"));
    let tasks = TaskFilter { limit: 100, ..TaskFilter::default() };
    say(&store.list_tasks(tasks).await.expect("up"));
    let every = SandboxFilter { limit: 100, ..SandboxFilter::default() };
    for sandbox in store.list_sandboxes(every).await.expect("up") {
        say(&(&sandbox, store.log_head(&sandbox.id).await.expect("up")));
        say(&store.message_history(&sandbox.id, 0, 100).await.expect("up"));
        say(&store.outline(&sandbox.id, None, 100).await.expect("up"));
        let mut after = 0;
        loop {
            let page = store.events_after(&sandbox.id, after, 1000).await.expect("up");
            let Some(last) = page.last() else { break };
            after = last.seq;
            say(&page);
        }
    }
    say(&store.list_tokens().await.expect("up"));
    say(&store.find_token(&[7; 32]).await.expect("up"));
    say(&store.open_calls(None).await.expect("up"));
    say(&store.blob_owners(&BlobHash::of(b"bytes")).await.expect("up"));
    say(&store.find_setting("a setting").await.expect("up"));
    let nodes = store.list_nodes().await.expect("up");
    nodes.iter().for_each(|node| say(&(&node.report, node.beat_at, node.left_at, node.sandboxes)));
    say(&store.feed_after(0, 50).await.expect("up"));
    say(&store.feed_head().await.expect("up"));
    told
}

/// Every row comes once, in the order of its key, in batches that are bounded, and none that was written after
/// the look began.
pub async fn reads_one_moment(world: World) {
    fill(&world).await;
    let mut whole = world.store.read_whole().await.expect("up");
    let head = world.store.feed_head().await.expect("up");
    let before = Sums::of(&mut *whole).await.expect("readable");
    let late = world.external(vec![event("agent.late", json!({}))]).await;
    world.say(&late, MessageType::UserMessage, "late").await;
    assert_eq!(Sums::of(&mut *whole).await.expect("readable"), before);
    assert_eq!(whole.feed_head().await.expect("readable"), head);
    for sum in &before {
        assert_eq!(whole.count(sum.table).await.expect("readable"), sum.rows, "{}", sum.table.name);
        assert!(sum.rows > 0, "there is something in {}", sum.table.name);
        assert_ordered(&mut *whole, sum.table).await;
    }
    let mut now = world.store.read_whole().await.expect("up");
    assert_ne!(Sums::of(&mut *now).await.expect("readable"), before);
}

async fn assert_ordered(whole: &mut dyn Source, table: &'static Table) {
    let mut after: Option<Vec<Cell>> = None;
    loop {
        let rows = whole.batch(table, after.as_deref()).await.expect("readable");
        assert!(rows.len() <= BATCH_ROWS);
        let Some(last) = rows.last() else { return };
        for row in &rows {
            assert_eq!(row.len(), table.columns.len());
            let key = table.key_of(row);
            assert!(after.as_ref().is_none_or(|after| words(after) < words(&key)), "{}", table.name);
            after = Some(key);
        }
        after = Some(table.key_of(last));
    }
}

/// A key in a form that sorts as the key does.
fn words(key: &[Cell]) -> Vec<(i64, String)> {
    let word = |cell: &Cell| match cell {
        Cell::Int(number) => (*number, String::new()),
        Cell::Text(text) => (0, text.clone()),
        other => panic!("no key: {other:?}"),
    };
    key.iter().map(word).collect()
}

/// The columns of a layout, as `(table, column)`, of which the transfer knows nothing, and the other way round.
/// `derived` are those that follow from the rest.
pub fn unknown_columns(layout: &[(String, String)], derived: &[(&str, &str)]) -> Vec<String> {
    let known: Vec<(&str, &str)> = TABLES
        .iter()
        .flat_map(|table| table.columns.iter().map(|column| (table.name, column.name)))
        .chain(derived.iter().copied())
        .collect();
    let there: Vec<(&str, &str)> =
        layout.iter().map(|(table, column)| (table.as_str(), column.as_str())).collect();
    let named = |(table, column): &(&str, &str)| format!("{table}.{column}");
    let new = there.iter().filter(|column| !known.contains(column)).map(named);
    let gone = known.iter().filter(|column| !there.contains(column)).map(named);
    new.chain(gone).collect()
}

/// What a sandbox may say for itself is fenced after a move as before.
pub async fn goes_on(world: &World) {
    let every = SandboxFilter { states: vec![SandboxState::Running], limit: 100, ..SandboxFilter::default() };
    for sandbox in world.store.list_sandboxes(every).await.expect("up") {
        let writer = if sandbox.task_id.is_some() { own(&sandbox) } else { Writer::Registrar };
        let outcomes =
            world.append(&sandbox.id, writer, vec![event("agent.message", json!({ "n": 1 }))]).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        super::world::assert_chain(&world.log(&sandbox.id).await);
    }
}
