//! What can go wrong, one at a time or two together, and how it is put right again.

use std::time::Duration;

use nix::sys::signal::Signal;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::task::block_in_place;

use super::world::{Node, World};

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillServer,
    KillBothServers,
    KillPostgres,
    KillRedis,
    KillPostgresAndServer,
    StopServer,
    StopPostgres,
    StopRedis,
    CutFromPostgres,
    HoldFromPostgres,
    SlowPostgres,
    CutFromRedis,
    HoldFromRedis,
    JumpOfTheClock,
}

/// Every kind, the cheap and frequent ones more often.
const DECK: [(Fault, usize); 14] = [
    (Fault::KillServer, 12),
    (Fault::KillBothServers, 3),
    (Fault::KillPostgres, 2),
    (Fault::KillRedis, 2),
    (Fault::KillPostgresAndServer, 1),
    (Fault::StopServer, 1),
    (Fault::StopPostgres, 1),
    (Fault::StopRedis, 1),
    (Fault::CutFromPostgres, 1),
    (Fault::HoldFromPostgres, 1),
    (Fault::SlowPostgres, 1),
    (Fault::CutFromRedis, 1),
    (Fault::HoldFromRedis, 1),
    (Fault::JumpOfTheClock, 2),
];

/// Deals faults: every kind comes once in a while, in an order that the seed decides.
#[derive(Default)]
pub(super) struct Deck(Vec<Fault>);

impl Deck {
    pub(super) fn next(&mut self, random: &mut StdRng) -> Fault {
        if self.0.is_empty() {
            self.0.extend(DECK.iter().flat_map(|(fault, times)| std::iter::repeat_n(*fault, *times)));
            self.0.shuffle(random);
        }
        self.0.pop().expect("it was filled")
    }
}

impl Fault {
    /// How many programs it kills.
    pub(super) const fn kills(self) -> u64 {
        match self {
            Self::KillServer | Self::KillPostgres | Self::KillRedis => 1,
            Self::KillBothServers | Self::KillPostgresAndServer => 2,
            Self::StopServer
            | Self::StopPostgres
            | Self::StopRedis
            | Self::CutFromPostgres
            | Self::HoldFromPostgres
            | Self::SlowPostgres
            | Self::CutFromRedis
            | Self::HoldFromRedis
            | Self::JumpOfTheClock => 0,
        }
    }

    /// Lets it happen, for a while, and puts it right.
    pub(super) async fn strike(self, world: &mut World, random: &mut StdRng) -> anyhow::Result<()> {
        let which = random.random_range(0..2);
        let pause = Duration::from_millis(random.random_range(0..300));
        let long = Duration::from_millis(random.random_range(200..3000));
        let World { nodes, postgres, redis } = world;
        match self {
            Self::KillServer => {
                nodes[which].server.kill().await?;
                tokio::time::sleep(pause).await;
                nodes[which].server.restart().await?;
            }
            Self::KillBothServers => kill_both(nodes, pause).await?,
            Self::KillPostgres => block_in_place(|| {
                postgres.kill();
                std::thread::sleep(pause);
                postgres.revive();
            }),
            Self::KillRedis => block_in_place(|| {
                redis.kill();
                std::thread::sleep(pause);
                redis.revive();
            }),
            Self::KillPostgresAndServer => {
                block_in_place(|| postgres.kill());
                tokio::time::sleep(pause).await;
                nodes[which].server.kill().await?;
                block_in_place(|| postgres.revive());
                nodes[which].server.restart().await?;
            }
            Self::StopServer => {
                nodes[which].server.signal(Signal::SIGSTOP)?;
                tokio::time::sleep(long).await;
                nodes[which].server.signal(Signal::SIGCONT)?;
            }
            Self::StopPostgres => block_in_place(|| {
                postgres.pause();
                std::thread::sleep(long);
                postgres.resume();
            }),
            Self::StopRedis => block_in_place(|| {
                redis.pause();
                std::thread::sleep(long);
                redis.resume();
            }),
            Self::JumpOfTheClock => jump(nodes, random)?,
            Self::CutFromPostgres
            | Self::HoldFromPostgres
            | Self::SlowPostgres
            | Self::CutFromRedis
            | Self::HoldFromRedis => self.disturb_line(&nodes[which], long).await,
        }
        Ok(())
    }

    async fn disturb_line(self, node: &Node, long: Duration) {
        match self {
            Self::CutFromPostgres => node.to_postgres.cut(),
            Self::HoldFromPostgres => node.to_postgres.hold(),
            Self::SlowPostgres => node.to_postgres.delay(Duration::from_millis(40)),
            Self::CutFromRedis => node.to_redis.cut(),
            _ => node.to_redis.hold(),
        }
        tokio::time::sleep(long).await;
        node.to_postgres.forward();
        node.to_redis.forward();
    }
}

async fn kill_both(nodes: &mut [Node; 2], pause: Duration) -> anyhow::Result<()> {
    let [one, two] = nodes;
    let (first, second) = tokio::join!(one.server.kill(), two.server.kill());
    first.and(second)?;
    tokio::time::sleep(pause).await;
    let (first, second) = tokio::join!(one.server.restart(), two.server.restart());
    first.and(second)
}

/// Minutes or hours, forwards or back, or right again.
fn jump(nodes: &[Node; 2], random: &mut StdRng) -> anyhow::Result<()> {
    let offs = [0, 45, -45, 20 * 60, -20 * 60, 26 * 3600, -26 * 3600];
    let off = offs[random.random_range(0..offs.len())];
    nodes.iter().filter_map(|node| node.clock.as_ref()).try_for_each(|clock| clock.set(off))
}
