//! Which system calls a sandbox may make, from a data file that people review.
//!
//! `rules.txt` decides every call that `numbers.txt` lists; what neither knows gets
//! ENOSYS. From the same rules come a filter for the kernel ([`filter`]) and a
//! profile for Docker ([`docker_profile`]). Nothing here is configurable: a rule that
//! should differ is changed in the file, with its reason.

mod compile;
mod docker;
mod rules;
mod values;

use seccompiler::TargetArch;

use self::rules::Rules;

/// Why there is no filter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A line of a data file makes no sense.
    #[error("{file}, line {line}: {what}")]
    Line {
        /// Which file.
        file: &'static str,
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The files do not fit together.
    #[error("{0}")]
    Whole(String),
    /// There are no numbers for this processor.
    #[error("system calls can be filtered on x86_64 and aarch64, not on {0}")]
    Architecture(&'static str),
}

/// The filter for this machine, as the kernel takes it: an array of `struct sock_filter`.
pub fn filter() -> Result<Vec<u8>, Error> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => TargetArch::x86_64,
        "aarch64" => TargetArch::aarch64,
        other => return Err(Error::Architecture(other)),
    };
    let program = compile::program(&Rules::built_in()?, architecture)?;
    let bytes = |one: seccompiler::sock_filter| {
        let [code_low, code_high] = one.code.to_ne_bytes();
        let [a, b, c, d] = one.k.to_ne_bytes();
        [code_low, code_high, one.jt, one.jf, a, b, c, d]
    };
    Ok(program.into_iter().flat_map(bytes).collect())
}

/// The same rules as a profile for Docker.
pub fn docker_profile() -> String {
    docker::profile(&Rules::built_in().expect("a test reads the built-in rules"))
}
