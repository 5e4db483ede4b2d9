//! Keys and channels.

/// Where an entry of the feed is published.
pub(crate) fn channel(event_type: &str) -> String {
    format!("events.{event_type}")
}

/// The names of one installation: all nodes on one database.
#[derive(Debug)]
pub(crate) struct Names {
    /// The last position that was published.
    pub(crate) published: String,
    /// Who publishes.
    pub(crate) publisher: String,
    /// Where nodes tell each other new positions.
    pub(crate) hint: String,
}

impl Names {
    /// What the keys have between braces decides where in a cluster they are; a script may use only keys that are
    /// in one place.
    pub(crate) fn of(installation: &str) -> Self {
        Self {
            published: format!("sunaba:{{{installation}}}:published"),
            publisher: format!("sunaba:{{{installation}}}:publisher"),
            hint: format!("sunaba:{installation}:hint"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slot of a key as the specification of Redis Cluster defines it.
    fn slot(key: &str) -> u16 {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
        let crc = hashed.bytes().fold(0u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            })
        });
        crc % 16384
    }

    #[test]
    fn the_keys_of_a_script_are_in_one_slot() {
        // As `CLUSTER KEYSLOT` of a real one says.
        assert_eq!(
            [slot("123456789"), slot("a{bc}d"), slot("bc"), slot("{}x")],
            [12739, 12685, 12685, 10595]
        );
        for installation in ["a", "b", "0190b7c2-5b0e-7d7c-8f3e-2f0c3a0f9d11"] {
            let names = Names::of(installation);
            assert_eq!(slot(&names.published), slot(&names.publisher), "{names:?}");
        }
        assert_ne!(slot(&Names::of("a").published), slot(&Names::of("b").published), "they spread");
    }
}
