//! The store of several servers against the suite of every backend, and what is PostgreSQL's own.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod offline_data;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod property;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod support;
#[cfg(test)]
mod telling;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod two_servers;
#[cfg(test)]
mod versions;
