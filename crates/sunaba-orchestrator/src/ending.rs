//! How a sandbox ended, in words.

use sunaba_types::shim::Exit;

/// Why a sandbox that ended before its agent was done did so.
pub(crate) fn describe(exit: &Exit) -> String {
    format!("the sandbox was over before its agent was done: {}; see its raw log", how(exit))
}

/// Whether it ended by itself and not for something that would end the next one too.
pub(crate) fn died(exit: &Exit) -> bool {
    let by_itself = exit.error.is_none() && exit.ended_for.is_none() && !exit.killed_on_request;
    by_itself && exit.oom_kills == 0 && exit.code != Some(0)
}

pub(crate) fn how(exit: &Exit) -> String {
    if let Some(error) = &exit.error {
        return format!("it could not be started: {error}");
    }
    match exit.ended_for.as_deref() {
        Some("memory") => return out_of_memory("it was ended for using more memory than its limit"),
        Some("disk") => {
            return "it was ended for using more disk than its limit; ask for more with --disk".to_owned();
        }
        Some("pids") => return "it was ended for having more processes than its limit".to_owned(),
        Some(other) => return format!("it was ended for passing its limit on {other}"),
        None => {}
    }
    match (exit.code, exit.signal) {
        (_, Some(signal)) if exit.oom_kills > 0 => {
            out_of_memory(&format!("it ran out of memory and was killed by signal {signal}"))
        }
        (_, Some(_)) if exit.killed_on_request => "it was killed on request".to_owned(),
        (_, Some(signal)) => format!("it was killed by signal {signal}{}", signal_name(signal)),
        (Some(code), None) if exit.oom_kills > 0 => out_of_memory(&format!(
            "it ended with exit code {code} after {} of its processes ran out of memory",
            exit.oom_kills
        )),
        (Some(code), None) => format!("it ended with exit code {code}"),
        (None, None) => "it ended in an unknown way".to_owned(),
    }
}

fn out_of_memory(what: &str) -> String {
    format!("{what}; ask for more with --memory")
}

const fn signal_name(signal: i32) -> &'static str {
    match signal {
        6 => " (abort)",
        9 => " (kill)",
        11 => " (segmentation fault)",
        15 => " (terminate)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit() -> Exit {
        Exit {
            code: None,
            signal: None,
            oom_kills: 0,
            ended_for: None,
            killed_on_request: false,
            error: None,
        }
    }

    #[test]
    fn every_way_to_end_has_words_of_its_own() {
        let ends = [
            Exit { code: Some(3), ..exit() },
            Exit { signal: Some(9), ..exit() },
            Exit { signal: Some(9), oom_kills: 1, ..exit() },
            Exit { code: Some(1), oom_kills: 2, ..exit() },
            Exit { signal: Some(9), ended_for: Some("memory".into()), ..exit() },
            Exit { signal: Some(9), ended_for: Some("disk".into()), ..exit() },
            Exit { signal: Some(9), ended_for: Some("pids".into()), ..exit() },
            Exit { signal: Some(9), killed_on_request: true, ..exit() },
            Exit { error: Some("no bubblewrap".into()), ..exit() },
            exit(),
        ];
        let words: std::collections::BTreeSet<String> = ends.iter().map(describe).collect();
        assert_eq!(words.len(), ends.len(), "{words:#?}");
        let died: Vec<bool> = ends.iter().map(died).collect();
        assert_eq!(died, [true, true, false, false, false, false, false, false, false, true]);
        assert!(describe(&ends[4]).contains("memory") && describe(&ends[5]).contains("disk"));
    }
}
