//! What can go wrong, one at a time or two together, and how it is put right again.

use std::time::Duration;

use nix::sys::signal::Signal;
use rand::RngExt;
use rand::rngs::StdRng;
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
    /// One server after the other is ended in order and started again.
    RollingRestart,
    StopServer,
    StopPostgres,
    StopRedis,
    CutFromPostgres,
    HoldFromPostgres,
    SlowPostgres,
    CutFromRedis,
    HoldFromRedis,
    CutBetweenServers,
    HoldBetweenServers,
    JumpOfTheClock,
}

impl Fault {
    /// How many programs it kills.
    pub(super) const fn kills(self) -> u64 {
        match self {
            Self::KillServer | Self::KillPostgres | Self::KillRedis => 1,
            Self::KillBothServers | Self::KillPostgresAndServer => 2,
            Self::RollingRestart
            | Self::StopServer
            | Self::StopPostgres
            | Self::StopRedis
            | Self::CutFromPostgres
            | Self::HoldFromPostgres
            | Self::SlowPostgres
            | Self::CutFromRedis
            | Self::HoldFromRedis
            | Self::CutBetweenServers
            | Self::HoldBetweenServers
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
            Self::RollingRestart => {
                for node in [which, 1 - which] {
                    nodes[node].server.stop().await?;
                    tokio::time::sleep(pause).await;
                    nodes[node].server.restart().await?;
                }
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
            | Self::HoldFromRedis => {
                self.disturb_line(&nodes[which]);
                tokio::time::sleep(long).await;
                mend_lines(nodes);
            }
            Self::CutBetweenServers | Self::HoldBetweenServers => {
                nodes.iter().for_each(|node| self.disturb_line(node));
                tokio::time::sleep(long).await;
                mend_lines(nodes);
            }
        }
        Ok(())
    }

    fn disturb_line(self, node: &Node) {
        match self {
            Self::CutFromPostgres => node.to_postgres.cut(),
            Self::HoldFromPostgres => node.to_postgres.hold(),
            Self::SlowPostgres => node.to_postgres.delay(Duration::from_millis(40)),
            Self::CutFromRedis => node.to_redis.cut(),
            Self::HoldFromRedis => node.to_redis.hold(),
            Self::CutBetweenServers => node.from_the_other.cut(),
            Self::HoldBetweenServers => node.from_the_other.hold(),
            _ => {}
        }
    }
}

fn mend_lines(nodes: &[Node; 2]) {
    for node in nodes {
        node.to_postgres.forward();
        node.to_redis.forward();
        node.from_the_other.forward();
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

/// Minutes or hours, forwards or back, or right again: in any case to another time than before.
fn jump(nodes: &[Node; 2], random: &mut StdRng) -> anyhow::Result<()> {
    const OFFS: [i64; 7] = [0, 45, -45, 20 * 60, -20 * 60, 26 * 3600, -26 * 3600];
    for clock in nodes.iter().filter_map(|node| node.clock.as_ref()) {
        let now = clock.off_seconds()?;
        let others: Vec<i64> = OFFS.into_iter().filter(|off| *off != now).collect();
        clock.set(others[random.random_range(0..others.len())])?;
    }
    Ok(())
}
