//! Where publishing begins: decided from three numbers, without I/O.

/// What is known when a node begins to publish.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Up to where this node knows that it was published.
    pub(crate) own: Option<i64>,
    /// Up to where Redis says that it was published; read before `head`.
    pub(crate) redis: Option<i64>,
    /// The feed's last position.
    pub(crate) head: i64,
}

/// Where to begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The first position after this one is published next.
    pub(crate) after: i64,
    /// How many positions are left out.
    pub(crate) left_out: i64,
    /// Redis is ahead of the feed by this value: the database is an older copy, and what comes now would be taken
    /// for published.
    pub(crate) lower: Option<i64>,
}

impl Known {
    pub(crate) fn start(self, backlog: i64) -> Start {
        let lower = self.redis.filter(|redis| *redis > self.head);
        let published = self.own.max(self.redis).unwrap_or(self.head).min(self.head);
        let behind = self.head - published;
        let left_out = if behind > backlog { behind } else { 0 };
        Start { after: published + left_out, left_out, lower }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: Option<i64>, redis: Option<i64>, head: i64, after: i64, left_out: i64, lower: Option<i64>) {
        assert_eq!(Known { own, redis, head }.start(100), Start { after, left_out, lower });
    }

    #[test]
    fn it_goes_on_where_somebody_was() {
        check(None, None, 50, 50, 0, None);
        check(None, Some(20), 50, 20, 0, None);
        check(Some(30), Some(20), 50, 30, 0, None);
        check(Some(30), None, 50, 30, 0, None);
        check(Some(10), Some(20), 50, 20, 0, None);
    }

    #[test]
    fn what_is_too_far_back_is_left_out() {
        check(None, Some(20), 120, 20, 0, None);
        check(None, Some(20), 121, 121, 101, None);
    }

    #[test]
    fn a_database_that_went_back_is_published_on() {
        check(None, Some(80), 50, 50, 0, Some(80));
        check(Some(80), Some(80), 50, 50, 0, Some(80));
        check(Some(80), None, 50, 50, 0, None);
    }
}
