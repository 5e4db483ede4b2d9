//! `sunaba agent`: which agents there are, and whether one really works here.

mod checks;
mod list;
mod trial;

pub(crate) use list::list;
pub(crate) use trial::test;
