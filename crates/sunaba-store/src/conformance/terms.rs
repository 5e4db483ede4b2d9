//! On what terms a sandbox runs, how it ended, and what a project says about it.

use std::collections::BTreeMap;

use serde_json::json;
use sunaba_engine::SandboxTrigger;
use sunaba_types::shim::Exit;
use sunaba_types::{
    Egress, EgressPreset, ExecutionConfig, FilesFrom, IsolationWanted, PermissionMode, ProjectId,
    ProjectSettings, QuestionPolicy, ResourcesWanted, SandboxId, Terms,
};

use super::world::{World, event, own};
use crate::{Error, ProjectPatch, SandboxChange};

fn terms() -> Terms {
    Terms {
        budget_usd: Some(1.25),
        timeout_seconds: Some(90),
        isolation: IsolationWanted::Strict,
        env: BTreeMap::from([("GREETING".to_owned(), "good day, \"you\"\n".to_owned())]),
        egress: None,
        files_from: Some(FilesFrom {
            sandbox_id: SandboxId::parse("sbx_other").expect("an id"),
            seq: Some(7),
            tree: "t".repeat(40),
            base_commit: "b".repeat(40),
        }),
        execution_config: ExecutionConfig {
            permission_mode: Some(PermissionMode::Ask),
            allowed_tools: Some(vec!["Bash(git add, git commit)".to_owned()]),
            system_prompt: Some("You are \"somebody\".\n".to_owned()),
            question_policy: Some(QuestionPolicy::Deny),
            ..ExecutionConfig::default()
        },
        ..Terms::default()
    }
}

fn exit() -> Exit {
    Exit {
        code: Some(137),
        signal: None,
        oom_kills: 2,
        ended_for: Some("memory".to_owned()),
        killed_on_request: false,
        error: None,
    }
}

/// Terms are kept as they were asked for; egress and exit are added when they are known.
pub async fn keeps_terms_exit_and_egress(world: World) {
    let task = world.task().await;
    let made = world.assign_on(&task.id, terms()).await;
    assert_eq!((&made.terms, &made.exit, made.cost_micros), (&terms(), &None, 0));
    assert_eq!(world.get_sandbox(&made.id).await, made);
    let egress = Egress { preset: EgressPreset::Registries, allow: vec!["example.org:8443".to_owned()] };
    let decided = SandboxChange {
        trigger: Some(SandboxTrigger::Create),
        egress: Some(egress.clone()),
        ..SandboxChange::default()
    };
    let creating = world.store.change_sandbox(&made.id, decided).await.expect("legal");
    assert_eq!(creating.terms, Terms { egress: Some(egress), ..terms() });
    assert_eq!(world.get_sandbox(&made.id).await, creating);
    let ended = SandboxChange {
        trigger: Some(SandboxTrigger::Fail),
        reason: Some("out of memory".to_owned()),
        exit: Some(exit()),
        ..SandboxChange::default()
    };
    let failed = world.store.change_sandbox(&made.id, ended).await.expect("legal");
    assert_eq!((failed.exit.as_ref(), &failed.terms), (Some(&exit()), &creating.terms));
    let later = SandboxChange { head_commit: Some("aaa".to_owned()), ..SandboxChange::default() };
    world.store.change_sandbox(&made.id, later).await.expect("a field");
    let held = world.get_sandbox(&made.id).await;
    assert_eq!((held.exit, held.terms), (Some(exit()), creating.terms), "what is not named stays");
    // The exit may be known only after the agent's own word ended the sandbox.
    let (_, other) = world.running().await;
    world.append(&other.id, own(&other), vec![event("agent.failed", json!({"error": "x"}))]).await;
    let exit_alone = SandboxChange { exit: Some(exit()), ..SandboxChange::default() };
    world.store.change_sandbox(&other.id, exit_alone).await.expect("a field of an ended sandbox");
    assert_eq!(world.get_sandbox(&other.id).await.exit, Some(exit()));
}

/// A change of a project leaves what it does not name, is published, and reaches no other project.
pub async fn changes_projects(world: World) {
    let (one, two) = (world.project("/a").await, world.project("/b").await);
    let before = world.store.feed_head().await.expect("up");
    let patch = ProjectPatch { name: Some("renamed".to_owned()), ..ProjectPatch::default() };
    let renamed = world.store.update_project(&one.id, patch).await.expect("it exists");
    assert_eq!(renamed, sunaba_types::Project { name: "renamed".to_owned(), ..one.clone() });
    let settings = ProjectSettings {
        provider: Some("local".to_owned()),
        resources: Some(ResourcesWanted { cpu: Some(0.5), ..ResourcesWanted::default() }),
        isolation: Some(IsolationWanted::Any),
        budget_usd: Some(0.1),
        total_budget_usd: Some(0.0),
        egress: Some(Egress { preset: EgressPreset::Open, allow: Vec::new() }),
        setup_command: Some(String::new()),
        setup_egress: Some(Egress::default()),
        root_fs: Some("/srv/root".to_owned()),
        image: Some("debian:13".to_owned()),
        ..ProjectSettings::default()
    };
    let patch = ProjectPatch {
        settings: Some(settings.clone()),
        default_branch: Some("next".to_owned()),
        ..ProjectPatch::default()
    };
    let changed = world.store.update_project(&one.id, patch).await.expect("it exists");
    assert_eq!((&changed.settings, changed.default_branch.as_str()), (&settings, "next"));
    assert_eq!(changed.name, "renamed");
    let find = async |id| world.store.find_project(id).await.expect("up");
    assert_eq!((find(&one.id).await, find(&two.id).await), (Some(changed), Some(two)));
    let told: Vec<(String, Option<ProjectId>)> = world
        .feed(before)
        .await
        .iter()
        .map(|entry| (entry.event_type.clone(), entry.project_id.clone()))
        .collect();
    assert_eq!(told, vec![("PROJECT_UPDATED".to_owned(), Some(one.id.clone())); 2]);
    let missing = world.store.update_project(&ProjectId::generate(), ProjectPatch::default()).await;
    assert!(matches!(missing, Err(Error::NotFound { what: "project", .. })), "{missing:?}");
}

/// Of two changes that were made from the same settings one is told so, and is not half done.
pub async fn refuses_settings_made_from_old_ones(world: World) {
    let project = world.project("/a").await;
    let patch = |model: &str| ProjectPatch {
        name: Some(model.to_owned()),
        settings: Some(ProjectSettings { model: Some(model.to_owned()), ..ProjectSettings::default() }),
        settings_before: Some(project.settings.clone()),
        ..ProjectPatch::default()
    };
    let (one, two) = tokio::join!(
        world.store.update_project(&project.id, patch("one")),
        world.store.update_project(&project.id, patch("two"))
    );
    let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
    assert!(matches!(lost, Err(Error::Conflict { code: "project_changed", .. })), "{lost:?}");
    let held = world.store.find_project(&project.id).await.expect("up");
    assert_eq!(held, Some(won.expect("one of them")));
}
