//! Reads a script and says where it is wrong.

use super::turn::Turn;

/// Largest script, in bytes.
pub const SCRIPT_MAX_BYTES: usize = 1024 * 1024;
/// Most turns of a script.
const TURNS_MAX: usize = 1000;
/// Longest wait that a turn may ask for.
const DELAY_MAX_MS: u64 = 600_000;

/// The script behind `script:default`.
pub const DEFAULT_SCRIPT: &str = include_str!("default.yaml");

/// What is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// Not text, or too much of it.
    #[error("a script is UTF-8 text of at most {SCRIPT_MAX_BYTES} bytes")]
    NotText,
    /// Not the YAML that is wanted.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What is wrong there.
        message: String,
    },
    /// Well-formed, but makes no sense.
    #[error("turn {turn}: {message}")]
    Turn {
        /// The turn, from 1; 0 for the script as a whole.
        turn: usize,
        /// What is wrong with it.
        message: String,
    },
}

/// A script that can be played.
#[derive(Debug, Clone)]
pub struct Script {
    pub(crate) turns: Vec<Turn>,
}

impl Script {
    /// Reads a script.
    pub fn parse(bytes: &[u8]) -> Result<Self, ScriptError> {
        if bytes.len() > SCRIPT_MAX_BYTES {
            return Err(ScriptError::NotText);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ScriptError::NotText)?;
        let turns: Vec<Turn> = serde_saphyr::from_str(text).map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            ScriptError::Syntax { line, column, message: error.without_snippet().to_string() }
        })?;
        let script = Self { turns };
        script.check()?;
        Ok(script)
    }

    /// How many turns it has.
    pub fn turn_count(&self) -> usize {
        self.turns.len()
    }

    fn check(&self) -> Result<(), ScriptError> {
        let wrong = |turn: usize, message: &str| ScriptError::Turn { turn, message: message.to_owned() };
        if self.turns.is_empty() || self.turns.len() > TURNS_MAX {
            return Err(wrong(0, "a script has 1 to 1000 turns"));
        }
        for (index, turn) in self.turns.iter().enumerate() {
            check_turn(turn).map_err(|message| wrong(index + 1, message))?;
        }
        Ok(())
    }
}

fn check_turn(turn: &Turn) -> Result<(), &'static str> {
    let says = turn.text.is_some() || turn.thinking.is_some() || !turn.tools.is_empty();
    if turn.delay_ms > DELAY_MAX_MS || turn.chunk_delay_ms > DELAY_MAX_MS {
        return Err("delays are at most 600000 ms");
    }
    if turn.when.as_ref().is_some_and(super::turn::When::is_empty) {
        return Err("`when` must name something to match");
    }
    match &turn.error {
        None if !says => Err("needs `text`, `thinking`, `tools` or `error`"),
        Some(error) if !(400..600).contains(&error.status) => Err("an error's status is 400 to 599"),
        Some(error) if error.times.is_none() && says => {
            Err("an error without `times` is for ever; `text`, `thinking` and `tools` would never be played")
        }
        Some(error) if error.times.is_some() && !says => {
            Err("after the error's `times` the turn needs `text`, `thinking` or `tools`")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_built_in_script_is_well_formed() {
        assert_eq!(Script::parse(DEFAULT_SCRIPT.as_bytes()).unwrap().turn_count(), 3);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = Script::parse(b"- text: hello\n- txet: oops\n").unwrap_err();
        let ScriptError::Syntax { line, message, .. } = &error else { panic!("{error}") };
        assert_eq!(*line, 2, "{error}");
        assert!(message.contains("txet"), "{error}");
        let nested = Script::parse(b"- tools:\n    - shell: {command: ls, comand: x}\n").unwrap_err();
        assert!(nested.to_string().contains("comand"), "{nested}");
    }

    #[test]
    fn turns_that_make_no_sense_are_named() {
        for (script, word) in [
            ("[]", "1 to 1000"),
            ("- {}", "turn 1"),
            ("- {text: a, when: {}}", "`when`"),
            ("- {error: {status: 200, type: x}}", "400 to 599"),
            ("- {text: a, error: {status: 500, type: x}}", "for ever"),
            ("- {error: {status: 500, type: x, times: 1}}", "after the error"),
            ("- {text: a, delay_ms: 99999999}", "delays"),
        ] {
            let error = Script::parse(script.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{script}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Script::parse(&bytes);
        }

        #[test]
        fn anything_that_looks_like_yaml_is_read_or_refused(text in "(- (text|tools|when|error|expect|usage): ?[\\[{a-z0-9:,\"' }\\]&*!|>-]{0,20}\n? {0,4}){0,6}") {
            let _ = Script::parse(text.as_bytes());
        }
    }
}
