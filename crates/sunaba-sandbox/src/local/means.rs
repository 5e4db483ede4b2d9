//! By what limits are kept on this host.

use sunaba_types::Enforcement;

use super::{LocalProvider, blocking};
use crate::cgroup::{self, Controller, Hierarchy};
use crate::{Error, Isolation, probe};

/// By what limits are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keeping {
    /// By the kernel where it can, by sampling where it cannot.
    #[default]
    Best,
    /// By sampling alone, as on a host that gives nothing else.
    Sampling,
}

/// What was found to work, by trying.
#[derive(Debug, Clone)]
pub(super) struct Means {
    pub(super) hierarchies: Vec<Hierarchy>,
    /// Whether each sandbox can have a disk of its own; why not.
    pub(super) images: Result<(), String>,
}

impl Means {
    fn limit(&self, controller: Controller) -> Enforcement {
        let by_kernel = self.hierarchies.iter().any(|hierarchy| hierarchy.has(controller));
        if by_kernel { Enforcement::Kernel } else { Enforcement::Sampled }
    }
}

impl LocalProvider {
    pub(super) async fn means(&self) -> &Means {
        self.means.get_or_init(|| self.find_means()).await
    }

    async fn find_means(&self) -> Means {
        let sampling = || Means { hierarchies: Vec::new(), images: Err("told to sample".to_owned()) };
        // Held before the question, so that a look either is waited for at the end or does not begin.
        let _under_way = self.looks.token();
        if self.keeping == Keeping::Sampling || self.looks.is_closed() {
            return sampling();
        }
        let (root, disks, separate) = (self.options.root.clone(), self.disks(), self.separate_users);
        let found = self.looks.spawn_blocking(move || Means {
            hierarchies: cgroup::find(&cgroup::View::default(), &cgroup::tag(&root)),
            images: match separate {
                true => disks.try_out().map_err(|error| error.to_string()),
                false => Err("only root can mount images".to_owned()),
            },
        });
        found.await.unwrap_or_else(|_| sampling())
    }

    /// Waits for looks at the host, which the end of this process would cut off before they removed what they
    /// made, and removes what no sandbox needs.
    pub(super) async fn take_back(&self) -> Result<(), Error> {
        self.looks.close();
        self.looks.wait().await;
        let hierarchies = self.means.get().map(|means| means.hierarchies.clone()).unwrap_or_default();
        let (root, disks) = (self.options.root.clone(), self.disks());
        blocking(move || {
            cgroup::remove_empty(&hierarchies, &cgroup::tag(&root));
            disks.close().map_err(Error::backend("remove the disks' common mount"))
        })
        .await
    }

    /// What holds here, found out anew.
    pub(super) async fn probe_isolation(&self) -> Result<Isolation, Error> {
        let walls = probe::walls(&probe::Host::default(), self.separate_users).await?;
        let means = self.means().await;
        Ok(Isolation {
            namespaces: true,
            own_uid: self.separate_users,
            network_closed: walls.network_closed,
            seccomp: walls.seccomp,
            memory: means.limit(Controller::Memory),
            cpu: means.limit(Controller::Cpu),
            pids: means.limit(Controller::Pids),
            disk: if means.images.is_ok() { Enforcement::Kernel } else { Enforcement::Sampled },
        })
    }
}
