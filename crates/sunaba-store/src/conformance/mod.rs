//! The suite that every backend passes.
//!
//! A backend joins with an `async fn` that makes a fresh [`World`] and one line,
//! which becomes one test a case:
//!
//! ```ignore
//! async fn fresh() -> sunaba_store::conformance::World { … }
//! sunaba_store::conformance!(crate::fresh);
//! ```
//!
//! Cases speak only of what the traits promise. They panic where a promise is broken.

pub mod effects;
pub mod feed;
pub mod fencing;
pub mod keeping;
pub mod log;
pub mod messages;
pub mod nodes;
pub mod pages;
pub mod questions;
pub mod random;
pub mod registry;
pub mod secrets;
pub mod sessions;
pub mod spending;
pub mod steps;
pub mod terms;
pub mod waits;
pub mod whole;
mod world;

pub use world::World;

/// Expands to one test a case; takes the path of an `async fn() -> World`.
#[macro_export]
macro_rules! conformance {
    ($make:path) => {
        $crate::conformance! { @each $make;
            log:
                numbers_events_without_gaps, stores_a_retried_event_once, answers_a_retry_after_the_end,
                refuses_an_id_used_for_something_else, refuses_a_conflict_inside_a_batch,
                keeps_payload_bytes, chains_events, fences_a_superseded_attempt, fences_a_foreign_attempt,
                takes_late_events_for_ten_minutes, takes_server_events_for_ever, knows_who_may_register,
                counts_heartbeats, bounds_the_types, appends_nothing_for_an_empty_request;
            pages:
                lists_newest_first, filters_by_type, excludes_types, pages_by_offset_with_filters,
                pages_by_cursor, finds_text, says_when_a_sandbox_is_unknown, walks_the_trajectory_both_ways,
                hides_noise_in_full_pages, hides_results_of_noisy_calls, outlines_turns, reads_on_after_a_seq,
                ends_pages_by_bytes;
            steps:
                finds_the_step_of_a_place, finds_steps_of_other_events_nearby, knows_the_place_of_an_event;
            effects:
                runs_on_the_first_event, completes_when_the_agent_is_done, fails_with_the_reason,
                records_state_changes_in_the_log, moves_liveness, leaves_a_newer_attempt_alone,
                ignores_what_the_server_writes;
            feed:
                publishes_in_order_without_loss, refers_to_events, publishes_task_names, hints_after_commit,
                publishes_a_retry_once;
            messages:
                hands_over_interrupts_first, offers_again_until_acknowledged, acknowledges_explicitly,
                takes_a_legacy_poll_as_acknowledgement, shows_before_it_hands_over, offers_again_to_a_new_worker, offers_again_when_an_answer_was_lost, marks_consumed_by_id,
                marks_consumed_by_content, bounds_the_queue, refuses_messages_to_the_dead,
                writes_nothing_for_an_empty_poll, keeps_the_history, expires_what_nobody_took,
                publishes_queueing_and_delivery;
            questions:
                asks_once, refuses_to_be_asked, takes_one_answer, lets_time_decide, keeps_what_is_to_wait,
                withdraws, remembers_for_a_tool, remembers_without_a_task, lists_questions;
            registry:
                keeps_one_project_a_repository, lists_what_may_be_seen, claims_a_task_once,
                takes_an_external_sandbox_as_running, makes_all_of_a_work_or_nothing,
                refuses_illegal_steps_whole, records_results, retries_with_a_higher_attempt,
                pages_sandboxes_of_one_instant, touches_only_forward, says_what_is_missing;
            terms:
                keeps_terms_exit_and_egress, changes_projects, refuses_settings_made_from_old_ones;
            spending:
                grants_between_least_and_most, caps_a_task_over_its_attempts, caps_a_project,
                caps_a_sandbox_without_a_task, refuses_spending_without_standing, settles_once,
                lists_open_calls, sums_calls, never_passes_a_cap_together;
            secrets:
                keeps_sealed_secrets, bounds_secrets;
            sessions:
                keeps_the_latest_transcript, bounds_transcripts, follows_up_what_is_over,
                goes_on_with_what_nobody_read, goes_on_in_the_same_sandbox, retries_what_died,
                finds_sessions_where_one_may_look, lets_one_hold_a_session,
                decides_a_crash_with_its_end, ends_for_good, adds_up_the_time_of_work;
            waits:
                waits_for_an_answer, waits_for_every_answer, waits_for_nothing_else, keeps_what_is_said_meanwhile,
                waits_no_longer, waits_for_a_limit, goes_on_in_place_of_waiting;
            nodes:
                knows_nodes, lets_one_process_be_a_node, claims_a_sandbox_once, claims_only_what_waits,
                lists_what_a_node_holds, gives_up_only_the_silent, replaces_what_was_lost,
                replaces_no_more_than_allowed, counts_only_what_was_lost, keeps_one_home;
            fencing:
                refuses_a_superseded_worker, refuses_a_worker_long_after_the_end;
            keeping:
                keeps_tokens_by_hash, revokes_tokens_once, revokes_the_tokens_of_a_sandbox, knows_blob_owners, sets_a_setting_once,
                refuses_work_when_closed;
            random:
                interleaved_writers_with_retries;
            whole:
                reads_one_moment;
        }
    };
    (@each $make:path; $($module:ident: $($case:ident),+;)+) => {
        $(mod $module {
            $(#[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$module::$case($make().await).await;
            })+
        })+
    };
}
