//! What tokens cost.
//!
//! A table is made of layers: the operator's file, if there is one, and then the
//! built-in list. In a layer a name is looked for exactly, then by the longest
//! entry that ends with `*`. A model that no layer knows has no price, unless the
//! file gives a `default`; calls of it are refused, because nothing could bound them.

mod price;

use std::collections::BTreeMap;

pub(crate) use price::Price;
use price::PriceSpec;

const BUILT_IN: &str = include_str!("built_in.yaml");
/// Largest price file, in bytes.
const FILE_MAX_BYTES: usize = 1024 * 1024;
/// The name under which scripted models are priced.
pub(crate) const SCRIPT: &str = "script";

/// Why a price file is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// Too much of it.
    #[error("a price file has at most {FILE_MAX_BYTES} bytes")]
    TooLarge,
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
    /// A price that is none.
    #[error("{model}: {message}")]
    Price {
        /// The entry.
        model: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Prices by model.
#[derive(Debug, Clone)]
pub struct PriceTable {
    layers: Vec<Layer>,
    default: Option<Price>,
}

#[derive(Debug, Clone)]
struct Layer(BTreeMap<String, Price>);

/// A price file: `models` by name, a `default` for every other, and whether the built-in list still counts.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    models: BTreeMap<String, PriceSpec>,
    default: Option<PriceSpec>,
    #[serde(default = "default_built_in")]
    built_in: bool,
}

fn default_built_in() -> bool {
    true
}

impl Default for PriceTable {
    fn default() -> Self {
        Self::built_in()
    }
}

impl PriceTable {
    /// The list that comes with the program.
    pub fn built_in() -> Self {
        let file = read(BUILT_IN).expect("the built-in price list is well-formed");
        let layer = layer(file.models).expect("the built-in price list is well-formed");
        Self { layers: vec![layer], default: None }
    }

    /// The built-in list under an operator's file.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        let file = read(text)?;
        let default = file.default.map(|spec| priced("default", &spec)).transpose()?;
        let mut layers = vec![layer(file.models)?];
        if file.built_in {
            layers.extend(Self::built_in().layers);
        }
        Ok(Self { layers, default })
    }

    /// The price of a model.
    pub(crate) fn find(&self, model: &str) -> Option<&Price> {
        self.layers.iter().find_map(|layer| layer.find(model)).or(self.default.as_ref())
    }

    /// The price of scripted models: nothing, unless the operator's file says otherwise.
    pub(crate) fn of_scripts(&self) -> Price {
        self.layers.iter().find_map(|layer| layer.find(SCRIPT)).cloned().unwrap_or_default()
    }
}

impl Layer {
    fn find(&self, model: &str) -> Option<&Price> {
        let exact = self.0.get(model).filter(|_| !model.ends_with('*'));
        exact.or_else(|| {
            let fitting = self.0.iter().filter_map(|(name, price)| {
                let start = name.strip_suffix('*')?;
                model.starts_with(start).then_some((start.len(), price))
            });
            fitting.max_by_key(|(length, _)| *length).map(|(_, price)| price)
        })
    }
}

fn read(text: &str) -> Result<File, PriceError> {
    if text.len() > FILE_MAX_BYTES {
        return Err(PriceError::TooLarge);
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        PriceError::Syntax { line, column, message: error.without_snippet().to_string() }
    })
}

fn layer(models: BTreeMap<String, PriceSpec>) -> Result<Layer, PriceError> {
    let prices = models.into_iter().map(|(name, spec)| priced(&name, &spec).map(|price| (name, price)));
    prices.collect::<Result<_, _>>().map(Layer)
}

fn priced(model: &str, spec: &PriceSpec) -> Result<Price, PriceError> {
    Price::new(spec).map_err(|message| PriceError::Price { model: model.to_owned(), message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn input_price(table: &PriceTable, model: &str) -> Option<u64> {
        let usage = crate::usage::Usage { input_tokens: 1_000, ..Default::default() };
        table.find(model).map(|price| price.cost(&usage))
    }

    #[test]
    fn names_are_matched_exactly_then_by_the_longest_start() {
        let table = PriceTable::parse(
            "models: {m: {input: 1, output: 1}, 'm-*': {input: 2, output: 1}, 'm-x*': {input: 3, output: 1}}",
        )
        .unwrap();
        let prices = ["m", "m-1", "m-xy", "mm"].map(|model| input_price(&table, model));
        assert_eq!(prices, [Some(1_000), Some(2_000), Some(3_000), None]);
        assert_eq!(input_price(&table, "m-*"), Some(2_000), "a pattern is no model");
    }

    #[test]
    fn a_file_goes_before_the_built_in_list_or_replaces_it() {
        let known = "claude-sonnet-4-5-20250929";
        assert_eq!(input_price(&PriceTable::built_in(), known), Some(3_000));
        let over = PriceTable::parse("models: {'claude-*': {input: 9, output: 9}}").unwrap();
        assert_eq!(input_price(&over, known), Some(9_000));
        assert!(input_price(&over, "gpt-5").is_some());
        let only = PriceTable::parse("built_in: false\nmodels: {a: {input: 1, output: 1}}").unwrap();
        assert_eq!((input_price(&only, known), input_price(&only, "a")), (None, Some(1_000)));
        let default = PriceTable::parse("default: {input: 7, output: 7}").unwrap();
        assert_eq!(input_price(&default, "never-heard-of"), Some(7_000));
        assert_eq!(input_price(&default, known), Some(3_000));
    }

    #[test]
    fn a_name_that_only_looks_like_a_known_one_has_no_price() {
        let table = PriceTable::built_in();
        for model in ["gpt-5.9", "gpt-5-superpro", "claude", "", "sonnet", "o9"] {
            assert!(table.find(model).is_none(), "{model}");
        }
        for model in ["gpt-5", "gpt-5-2025-08-07", "gpt-5.1-codex", "claude-haiku-4-5", "o3", "gpt-4o-mini"] {
            assert!(table.find(model).is_some(), "{model}");
        }
    }

    #[test]
    fn scripts_cost_nothing_unless_the_file_says_so() {
        let usage = crate::usage::Usage { output_tokens: 10, ..Default::default() };
        assert_eq!(PriceTable::built_in().of_scripts().cost(&usage), 0);
        assert_eq!(PriceTable::parse("default: {input: 1, output: 1}").unwrap().of_scripts().cost(&usage), 0);
        let priced = PriceTable::parse("models: {script: {input: 1, output: 2}}").unwrap();
        assert_eq!(priced.of_scripts().cost(&usage), 20);
    }

    #[test]
    fn mistakes_are_named() {
        for (file, word) in [
            ("models: {a: {input: 1}}", "output"),
            ("models: {a: {input: 1, output: 1, outptu: 1}}", "outptu"),
            ("models: {a: {input: -1, output: 1}}", "a: "),
            ("models: {a: {input: .nan, output: 1}}", "a: "),
            ("models: {a: {input: 1, output: 1, max_output: 0}}", "max_output"),
            ("modles: {}", "modles"),
        ] {
            let error = PriceTable::parse(file).unwrap_err().to_string();
            assert!(error.contains(word), "{file}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "(models|default|built_in)?: ?[\\[{a-z0-9:,.\"' }\\]*-]{0,60}") {
            let _ = PriceTable::parse(&text);
        }
    }
}
