//! The bus on a real Redis, with real stores.

#[cfg(test)]
mod errors;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod hub;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod support;
