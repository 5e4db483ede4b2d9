//! The embedded store against the suite of every backend, and what is SQLite's own.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod contention;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod offline_data;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod property;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod support;
#[cfg(test)]
mod transfer;
