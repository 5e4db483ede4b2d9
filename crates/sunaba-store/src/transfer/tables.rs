//! What there is to move: every table in an order in which references hold, in no store's own words.
//!
//! Left out is what follows from the rest: numbers that a store gives by itself, counters of rows, the feed's
//! position (which is told apart). Each store has a test that fails when its layout has something that is not
//! here.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Int,
    /// Fractions.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// A list of texts, as a JSON text.
    List,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// A table.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The columns that tell its rows apart and order them, by bytes.
    pub key: &'static [&'static str],
    /// Its columns.
    pub columns: &'static [Column],
}

impl Table {
    /// The table of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// Its place in the order.
    pub(super) fn place(&self) -> usize {
        TABLES.iter().position(|table| table.name == self.name).unwrap_or_default()
    }

    /// Where the columns of the key are.
    pub fn key_places(&self) -> impl ExactSizeIterator<Item = usize> {
        self.key.iter().map(|name| {
            let place = self.columns.iter().position(|column| column.name == *name);
            place.expect("a key is made of columns")
        })
    }

    /// The key of a row.
    pub fn key_of(&self, row: &[super::Cell]) -> Vec<super::Cell> {
        self.key_places().map(|place| row[place].clone()).collect()
    }
}

const fn int(name: &'static str) -> Column {
    Column { name, kind: Kind::Int }
}

const fn real(name: &'static str) -> Column {
    Column { name, kind: Kind::Real }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

const fn bytes(name: &'static str) -> Column {
    Column { name, kind: Kind::Bytes }
}

const fn list(name: &'static str) -> Column {
    Column { name, kind: Kind::List }
}

/// Every table.
pub static TABLES: [Table; 20] = [
    Table { name: "settings", key: &["name"], columns: &[text("name"), text("value")] },
    Table {
        name: "nodes",
        key: &["id"],
        columns: &[
            text("id"),
            text("instance"),
            text("host"),
            text("address"),
            text("version"),
            text("roles"),
            text("providers"),
            int("max_sandboxes"),
            text("loops"),
            int("started_at"),
            int("beat_at"),
            int("left_at"),
            int("lost_at"),
        ],
    },
    Table {
        name: "projects",
        key: &["id"],
        columns: &[
            text("id"),
            text("name"),
            text("repo_path"),
            text("repo_url"),
            text("default_branch"),
            text("settings"),
            int("created_at"),
            int("cost_micros"),
            int("reserved_micros"),
            text("home_node"),
        ],
    },
    Table {
        name: "secrets",
        key: &["project_id", "name"],
        columns: &[text("project_id"), text("name"), bytes("sealed"), int("updated_at")],
    },
    Table {
        name: "tickets",
        key: &["id"],
        columns: &[
            text("id"),
            text("project_id"),
            text("title"),
            text("description"),
            text("ticket_type"),
            text("priority"),
            text("status"),
            text("branch_name"),
            text("owner"),
            int("created_at"),
            int("updated_at"),
        ],
    },
    Table {
        name: "tasks",
        key: &["id"],
        columns: &[
            text("id"),
            text("ticket_id"),
            text("project_id"),
            text("phase_id"),
            text("task_type"),
            text("title"),
            text("description"),
            text("priority"),
            text("status"),
            text("sandbox_id"),
            text("assigned_agent_id"),
            int("attempt"),
            text("outcome"),
            text("result"),
            text("error_message"),
            int("created_at"),
            int("updated_at"),
            int("started_at"),
            int("completed_at"),
            int("cost_micros"),
            int("reserved_micros"),
            text("execution_config"),
        ],
    },
    Table {
        name: "sandboxes",
        key: &["id"],
        columns: &[
            text("id"),
            text("project_id"),
            text("task_id"),
            int("attempt"),
            text("provider"),
            text("provider_ref"),
            text("state"),
            int("state_entered_at"),
            text("reason"),
            text("runtime"),
            text("model"),
            text("prompt"),
            text("branch_name"),
            text("base_commit"),
            text("head_commit"),
            text("isolation"),
            real("memory_gb"),
            real("cpu"),
            real("disk_gb"),
            int("created_at"),
            int("ended_at"),
            text("terms"),
            text("exit"),
            int("cost_micros"),
            int("reserved_micros"),
            text("node_id"),
        ],
    },
    Table {
        name: "sandbox_log",
        key: &["sandbox_id"],
        columns: &[
            text("sandbox_id"),
            int("last_seq"),
            bytes("last_hash"),
            int("heartbeat_count"),
            int("first_heartbeat"),
            int("last_heartbeat"),
            int("story_count"),
            int("noise_count"),
            int("silence_seconds"),
            int("alive_until"),
        ],
    },
    Table {
        name: "events",
        key: &["sandbox_id", "seq"],
        columns: &[
            text("sandbox_id"),
            int("seq"),
            text("event_id"),
            text("event_type"),
            int("type_seq"),
            text("source"),
            int("class"),
            int("created_at"),
            text("payload"),
            bytes("payload_hash"),
            bytes("hash"),
            text("step"),
        ],
    },
    Table {
        name: "event_type_counts",
        key: &["sandbox_id", "event_type"],
        columns: &[text("sandbox_id"), text("event_type"), int("count")],
    },
    Table {
        name: "noisy_calls",
        key: &["sandbox_id", "tool_use_id"],
        columns: &[text("sandbox_id"), text("tool_use_id")],
    },
    Table {
        name: "outline",
        key: &["sandbox_id", "turn"],
        columns: &[
            text("sandbox_id"),
            int("turn"),
            int("first_seq"),
            int("last_seq"),
            int("started_at"),
            int("ended_at"),
            int("tools"),
            int("errors"),
            int("edits"),
            int("messages"),
        ],
    },
    Table {
        name: "messages",
        key: &["id"],
        columns: &[
            text("id"),
            text("sandbox_id"),
            int("seq"),
            text("content"),
            text("message_type"),
            text("sender"),
            text("state"),
            text("via"),
            int("offered_at"),
            int("created_at"),
            int("handed_over_at"),
            int("acknowledged_at"),
            int("consumed_at"),
            int("consumed_seq"),
            text("reason"),
        ],
    },
    Table {
        name: "questions",
        key: &["id"],
        columns: &[
            text("id"),
            text("sandbox_id"),
            text("project_id"),
            text("task_id"),
            int("attempt"),
            text("client_id"),
            text("tool"),
            text("tool_use_id"),
            text("input"),
            text("policy"),
            int("asked_at"),
            int("expires_at"),
            text("state"),
            text("answer"),
            text("updated_input"),
            text("message"),
            text("remember"),
            text("answered_by"),
            int("answered_at"),
            text("reason"),
            text("carried_to"),
        ],
    },
    Table {
        name: "model_calls",
        key: &["id"],
        columns: &[
            text("id"),
            text("sandbox_id"),
            text("task_id"),
            text("project_id"),
            text("dialect"),
            text("model"),
            int("reserved_micros"),
            int("cost_micros"),
            int("input_tokens"),
            int("output_tokens"),
            int("cache_read_tokens"),
            int("cache_write_tokens"),
            text("known_by"),
            int("created_at"),
            int("settled_at"),
            text("node_id"),
        ],
    },
    Table {
        name: "tokens",
        key: &["id"],
        columns: &[
            text("id"),
            bytes("hash"),
            text("name"),
            text("kind"),
            list("scopes"),
            list("projects"),
            text("sandbox_id"),
            int("attempt"),
            int("created_at"),
            int("expires_at"),
            int("revoked_at"),
        ],
    },
    Table {
        name: "blobs",
        key: &["hash", "owner"],
        columns: &[text("hash"), text("owner"), int("size_bytes"), int("created_at")],
    },
    Table {
        name: "transcripts",
        key: &["sandbox_id", "session_id"],
        columns: &[
            text("sandbox_id"),
            text("session_id"),
            text("runtime"),
            text("hash"),
            int("size_bytes"),
            int("turns"),
            int("updated_at"),
        ],
    },
    Table {
        name: "waits",
        key: &["sandbox_id"],
        columns: &[text("sandbox_id"), int("until"), text("words"), int("created_at")],
    },
    Table {
        name: "feed",
        key: &["position"],
        columns: &[
            int("position"),
            text("project_id"),
            text("event_type"),
            text("entity_type"),
            text("entity_id"),
            text("sandbox_id"),
            int("seq"),
            text("payload"),
            int("created_at"),
        ],
    },
];
