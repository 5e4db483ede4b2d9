//! What is known, as the tables of `docs/agents.md`.

use super::{CASES, CaseResult, KNOWN, KnownAgent, MEASURED, Measured, Origin, Verdict};

/// What each agent does.
pub fn behaviour_table() -> String {
    table(&CASES, |agent, case| agent.result(case).map(|result| said(&result)))
}

/// How long things took.
pub fn times_table() -> String {
    table(&MEASURED, |agent, what| {
        agent.measured().into_iter().find(|measured| measured.what == what).map(|measured| range(&measured))
    })
}

/// How each is installed.
pub fn install_table() -> String {
    let mut text = String::from("| runtime | program | install | model by |\n|---|---|---|---|\n");
    for agent in KNOWN.iter().filter(|agent| !agent.is_built_in()) {
        text.push_str(&format!(
            "| `{}` | `{}` | `{}` | {} |\n",
            agent.name,
            agent.command.join(" "),
            agent.install().unwrap_or_default(),
            agent.model_api
        ));
    }
    text
}

fn table(rows: &[(&str, &str)], cell: impl Fn(&KnownAgent, &str) -> Option<String>) -> String {
    let mut text = String::from("| |");
    for agent in KNOWN {
        text.push_str(&format!(" {} |", heading(&agent)));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(KNOWN.len())));
    for (name, title) in rows {
        text.push_str(&format!("| {title} |"));
        for agent in KNOWN {
            text.push_str(&format!(" {} |", cell(&agent, name).unwrap_or_default()));
        }
        text.push('\n');
    }
    text
}

fn heading(agent: &KnownAgent) -> String {
    let program = match agent.origin {
        // Its program is Python's.
        Origin::PyPi => Some(agent.package),
        Origin::Npm | Origin::Unpackaged => agent.program(),
    };
    match program {
        Some(program) => format!("{} ({program} {})", agent.name, agent.version),
        None => agent.name.to_owned(),
    }
}

fn said(result: &CaseResult) -> String {
    match (result.verdict, result.note) {
        (Verdict::Yes, "") => "yes".to_owned(),
        (Verdict::Yes, note) => note.to_owned(),
        (Verdict::No, note) => format!("no: {note}"),
        (Verdict::Sometimes, note) => format!("mostly: {note}"),
    }
}

fn range(measured: &Measured) -> String {
    let Measured { from_ms, to_ms, .. } = *measured;
    let seconds = |ms: u32| f64::from(ms) / 1000.0;
    match (from_ms, to_ms) {
        (0, to) => format!("under {to} ms"),
        (from, to) if from == to => format!("{to} ms"),
        (from, to) if from >= 1000 => format!("{:.1} to {:.1} s", seconds(from), seconds(to)),
        (from, to) => format!("{from} to {to} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");

    /// The text with a table in the place of what stands between its marks.
    fn with_table(text: &str, name: &str, table: &str) -> String {
        let (begin, end) = (format!("<!-- {name}: made by `make docs` -->\n"), format!("<!-- /{name} -->\n"));
        let from = text.find(&begin).unwrap_or_else(|| panic!("{begin:?} is missing")) + begin.len();
        let to = text[from..].find(&end).unwrap_or_else(|| panic!("{end:?} is missing")) + from;
        format!("{}{table}{}", &text[..from], &text[to..])
    }

    #[test]
    fn the_document_says_what_the_suite_finds() {
        let text = std::fs::read_to_string(DOCUMENT).unwrap();
        let mut wanted = with_table(&text, "behaviour", &behaviour_table());
        wanted = with_table(&wanted, "times", &times_table());
        wanted = with_table(&wanted, "install", &install_table());
        if std::env::var_os("SUNABA_UPDATE_DOCS").is_some() {
            std::fs::write(DOCUMENT, &wanted).unwrap();
            return;
        }
        assert_eq!(text, wanted, "docs/agents.md is not what was found; `make docs` writes it anew");
    }

    #[test]
    fn the_tests_install_the_versions_that_are_known() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/setup");
        let script = std::fs::read_to_string(script).unwrap();
        for agent in KNOWN.iter().filter(|agent| !agent.is_built_in()) {
            let how = if agent.origin == Origin::PyPi { "install_python_agent" } else { "install_agent" };
            let line = format!("{how} {} {} ", agent.package, agent.version);
            assert!(script.contains(&line), "scripts/setup does not say {line:?}");
        }
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        let said = |from_ms, to_ms| range(&Measured { what: "", from_ms, to_ms });
        assert_eq!(
            [said(0, 4), said(3, 13), said(900, 900), said(1300, 2300), said(800, 1200)],
            ["under 4 ms", "3 to 13 ms", "900 ms", "1.3 to 2.3 s", "800 to 1200 ms"]
        );
    }
}
