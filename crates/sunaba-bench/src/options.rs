//! What is asked for on the command line.

use anyhow::{Context, bail};

/// What can be measured by itself, in the order of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Start,
    Alive,
    Gateway,
    Agent,
    Ingest,
    Fanout,
    Messages,
    Pages,
    Growth,
    PostgresStart,
    PostgresIngest,
    PostgresFanout,
    PostgresMessages,
    PostgresPages,
    PostgresClaim,
    PostgresGrowth,
}

/// Every part by its name.
pub(crate) const PARTS: [(&str, Part); 16] = [
    ("start", Part::Start),
    ("alive", Part::Alive),
    ("gateway", Part::Gateway),
    ("agent", Part::Agent),
    ("ingest", Part::Ingest),
    ("fanout", Part::Fanout),
    ("messages", Part::Messages),
    ("pages", Part::Pages),
    ("growth", Part::Growth),
    ("pg-start", Part::PostgresStart),
    ("pg-ingest", Part::PostgresIngest),
    ("pg-fanout", Part::PostgresFanout),
    ("pg-messages", Part::PostgresMessages),
    ("pg-pages", Part::PostgresPages),
    ("pg-claim", Part::PostgresClaim),
    ("pg-growth", Part::PostgresGrowth),
];

/// How much is done in the parts on PostgreSQL and in those about growth; the others have one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As little as shows that a part works; its figures mean nothing.
    Quick,
    /// What the design speaks of, as far as that takes minutes.
    Usual,
    /// Growth up to ten million events too, which takes tens of minutes and gigabytes.
    Full,
}

impl Scale {
    /// One of two sizes: a small one that only shows that something works.
    pub(crate) fn of<T>(self, quick: T, usual: T) -> T {
        if self == Self::Quick { quick } else { usual }
    }

    /// At how many events growth is looked at.
    pub(crate) fn sizes(self) -> &'static [u64] {
        match self {
            Self::Quick => &[5_000, 20_000],
            Self::Usual => &[10_000, 1_000_000],
            Self::Full => &[10_000, 1_000_000, 10_000_000],
        }
    }
}

/// What to measure, and how much of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) parts: Vec<(&'static str, Part)>,
    pub(crate) scale: Scale,
}

impl Options {
    /// Reads the words after the program's name.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let (mut parts, mut scale) = (Vec::new(), Scale::Usual);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--only" => {
                    let named = words.next().context("--only needs the name of a part")?;
                    for name in named.split(',') {
                        parts.push(find(name)?);
                    }
                }
                "--quick" => scale = Scale::Quick,
                "--full" => scale = Scale::Full,
                other => bail!("{other:?} is not known; there are --only PART, --quick and --full"),
            }
        }
        if parts.is_empty() {
            parts.extend(PARTS);
        }
        Ok(Self { parts, scale })
    }
}

fn find(name: &str) -> anyhow::Result<(&'static str, Part)> {
    PARTS.into_iter().find(|(known, _)| *known == name).with_context(|| {
        let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        format!("there is no part {name:?}; there are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> anyhow::Result<Options> {
        Options::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn everything_is_measured_unless_parts_are_named() {
        let all = parse(&[]).expect("no words are fine");
        assert_eq!(all, Options { parts: PARTS.to_vec(), scale: Scale::Usual });
        let some = parse(&["--only", "pg-claim,start", "--quick", "--only", "pages"]).expect("known parts");
        let names: Vec<&str> = some.parts.iter().map(|(name, _)| *name).collect();
        assert_eq!((names, some.scale), (vec!["pg-claim", "start", "pages"], Scale::Quick));
    }

    #[test]
    fn every_part_can_be_named() {
        for (name, part) in PARTS {
            assert_eq!(parse(&["--only", name]).expect("a known part").parts, vec![(name, part)]);
        }
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_right_ones() {
        for (words, said) in [
            (&["--only", "nothing"][..], "pg-growth"),
            (&["--only"], "needs the name"),
            (&["start"], "--only PART"),
        ] {
            let error = parse(words).expect_err("not known").to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn ten_million_events_are_asked_for() {
        assert!(!Scale::Usual.sizes().contains(&10_000_000));
        assert!(Scale::Full.sizes().contains(&10_000_000));
        assert_eq!([Scale::Quick, Scale::Usual, Scale::Full].map(|scale| scale.of(1, 2)), [1, 2, 2]);
    }
}
