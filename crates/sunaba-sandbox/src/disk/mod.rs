//! A file system of its own for each sandbox's workspace and home.
//!
//! The image is a sparse file in the sandbox's directory. It is mounted below
//! one small mount of this server (`.disks`), never below the sandbox's own
//! directory: so one step detaches all of them from a namespace that has no
//! business with them, and a namespace that somebody else copied meanwhile holds
//! none for longer than it must. The loop device frees itself with its last
//! mount, whoever dies at whatever moment; what stays mounted carries the
//! sandbox's name and is found and removed by it.

mod deleted;
mod image;
mod measure;

pub use deleted::deleted_bytes;
pub use measure::{Judge, Measured, measure};

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

/// Name of the directory that holds workspace and home, on the disk or as it is.
pub const DISK_DIR: &str = "disk";
/// Name of the disk's image.
pub const IMAGE_FILE: &str = "disk.img";
/// Below the directory of all sandboxes: where disks are mounted.
pub const MOUNTS_DIR: &str = ".disks";
/// Smallest disk that is made.
pub const DISK_MIN_BYTES: u64 = 16 << 20;

/// Disks that are only tried out; the name goes on with who tries.
const PROBE_PREFIX: &str = ".probe-";
const LOCK_FILE: &str = ".disks.lock";
/// How long whoever still has a file open may take to let go.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);
/// The same for the common mount, which the next removal tries again.
const MOUNTS_PATIENCE: Duration = Duration::from_secs(2);

/// The disks of one server.
#[derive(Debug, Clone)]
pub struct Disks {
    root: PathBuf,
}

impl Disks {
    /// The disks of the sandboxes whose directories are in `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where the disk of a sandbox is mounted.
    pub fn place(&self, name: &str) -> PathBuf {
        self.root.join(MOUNTS_DIR).join(name)
    }

    fn image(&self, name: &str) -> PathBuf {
        self.root.join(name).join(IMAGE_FILE)
    }

    /// Whether this sandbox has a disk, mounted or not.
    pub fn has(&self, name: &str) -> bool {
        self.image(name).exists()
    }

    /// Makes the disk unless it is there, and mounts it unless it is.
    pub fn attach(&self, name: &str, size_bytes: u64) -> io::Result<PathBuf> {
        let (image, place) = (self.image(name), self.place(name));
        if !image.exists() {
            image::format(&image, size_bytes)?;
        }
        let _lock = self.lock()?;
        self.make_mounts_dir()?;
        make_dir(&place)?;
        if !is_mount_point(&place)? {
            image::mount(&image, &place)?;
        }
        Ok(place)
    }

    /// Unmounts the disk and removes its image; answers once no loop device holds it.
    pub fn detach(&self, name: &str) -> io::Result<()> {
        let (image, place) = (self.image(name), self.place(name));
        let lock = self.lock()?;
        if place.exists() {
            unmount_all(&place)?;
            fs::remove_dir(&place)?;
        }
        self.remove_mounts_dir();
        drop(lock);
        image::await_freed(&image, PATIENCE)?;
        for path in [image.clone(), image::unfinished(&image)] {
            absent_is_fine(fs::remove_file(path))?;
        }
        Ok(())
    }

    /// Removes the common mount where a disk that went could not take it along.
    pub fn close(&self) -> io::Result<()> {
        if self.root.join(MOUNTS_DIR).exists() {
            let _lock = self.lock()?;
            self.remove_mounts_dir();
        }
        Ok(())
    }

    /// Names of sandboxes that have something mounted here.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(MOUNTS_DIR)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// Finds out by trying whether disks can be made here. The mount is made in a namespace that ends with the
    /// try, so that nothing stays mounted whoever is killed meanwhile.
    pub fn try_out(&self) -> io::Result<()> {
        self.sweep_probes();
        let name = format!("{PROBE_PREFIX}{}-{:?}", std::process::id(), std::thread::current().id());
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect();
        let dir = self.root.join(name);
        make_dir(&dir)?;
        let image = dir.join(IMAGE_FILE);
        let tried = image::format(&image, DISK_MIN_BYTES)
            .and_then(|()| make_dir(&dir.join(DISK_DIR)))
            .and_then(|()| image::try_mount(&image, &dir.join(DISK_DIR)))
            .and_then(|()| image::await_freed(&image, PATIENCE));
        tried.and(fs::remove_dir_all(&dir))
    }

    /// Removes what a process that was killed in the middle of its try left.
    fn sweep_probes(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else { return };
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let owner = name.strip_prefix(PROBE_PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
            if owner.is_some_and(|pid: i32| crate::process::start_time(pid).is_none()) {
                // What cannot be removed now is tried again by the next.
                let _ = fs::remove_dir_all(self.root.join(&name));
            }
        }
    }

    fn lock(&self) -> io::Result<Flock<File>> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(self.root.join(LOCK_FILE))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    }

    fn make_mounts_dir(&self) -> io::Result<()> {
        let dir = self.root.join(MOUNTS_DIR);
        make_dir(&dir)?;
        if is_mount_point(&dir)? {
            return Ok(());
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("sunaba-disks", &dir, "tmpfs", flags, c"mode=0700,size=4m")?;
        mount_change(&dir, MountPropagationFlags::PRIVATE)?;
        Ok(())
    }

    /// The last disk takes the common mount with it.
    fn remove_mounts_dir(&self) {
        let dir = self.root.join(MOUNTS_DIR);
        let deadline = Instant::now() + MOUNTS_PATIENCE;
        while fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_none()) {
            if is_mount_point(&dir).unwrap_or(true) {
                match unmount(&dir, UnmountFlags::NOFOLLOW) {
                    Ok(()) => {}
                    // A program that is just being started holds what was open here until it runs.
                    Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
                    Err(_) => return,
                }
            } else {
                let _ = fs::remove_dir(&dir);
                return;
            }
        }
    }
}

/// Leaves the host's mount namespace for one in which the sandbox's own disk lies at `disk` in its directory
/// and nobody else's disk is to be seen. Without a disk it does nothing. Only for a process with one thread.
pub fn show_own(dir: &Path) -> io::Result<()> {
    if !dir.join(IMAGE_FILE).exists() {
        return Ok(());
    }
    let (Some(root), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the sandbox's directory has no parent"));
    };
    let mounts = root.join(MOUNTS_DIR);
    let place = mounts.join(name);
    if !is_mount_point(&place)? {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the sandbox's disk is not mounted"));
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount_bind(&place, dir.join(DISK_DIR))?;
    Ok(unmount(&mounts, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// Bytes that are in use on the file system at a path.
pub fn used_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize))
}

/// Bytes of the whole file system at a path.
pub fn size_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// Bytes that are free on the file system at a path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn unmount_all(place: &Path) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while is_mount_point(place)? {
        match unmount(place, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(POLL),
            // Out of sight at least; the loop device goes when the last file is closed, and that is waited for.
            Err(_) => unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?,
        }
    }
    Ok(())
}

fn is_mount_point(path: &Path) -> io::Result<bool> {
    let Some(parent) = path.parent() else { return Ok(true) };
    Ok(fs::symlink_metadata(path)?.dev() != fs::symlink_metadata(parent)?.dev())
}

fn make_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops_of(root: &Path) -> Vec<PathBuf> {
        image::backing_files()
            .into_iter()
            .map(|(_, file)| file)
            .filter(|file| file.starts_with(root))
            .collect()
    }

    #[test]
    fn a_disk_is_full_at_its_size_and_leaves_nothing() {
        if !nix::unistd::geteuid().is_root() {
            println!("left out: only root can mount images");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let disks = Disks::new(&root);
        fs::create_dir(root.join("one")).unwrap();
        let place = disks.attach("one", 20 << 20).unwrap();
        assert_eq!(disks.attach("one", 20 << 20).unwrap(), place, "asked again: the same");
        assert_eq!(loops_of(&root).len(), 1);
        let error = fs::write(place.join("big"), vec![1; 30 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(used_bytes(&place).unwrap() > 15 << 20);
        assert_eq!(disks.names(), ["one"]);
        disks.detach("one").unwrap();
        disks.detach("one").unwrap();
        assert_eq!(loops_of(&root), Vec::<PathBuf>::new());
        assert!(!root.join(MOUNTS_DIR).exists() && !root.join("one").join(IMAGE_FILE).exists());
        disks.try_out().unwrap();
        let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "the sandbox's directory and the lock: {left:?}");
    }

    #[test]
    fn what_a_killed_try_left_goes_with_the_next() {
        if !nix::unistd::geteuid().is_root() {
            println!("left out: only root can mount images");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let disks = Disks::new(&root);
        // No process has this number.
        let left = root.join(format!("{PROBE_PREFIX}999999999-1"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join(IMAGE_FILE), "half").unwrap();
        disks.try_out().unwrap();
        assert!(!left.exists() && !root.join(MOUNTS_DIR).exists());
        assert_eq!(loops_of(&root), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_common_mount_goes_at_the_latest_with_the_server() {
        if !nix::unistd::geteuid().is_root() {
            println!("left out: only root can mount images");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let disks = Disks::new(root.path());
        disks.close().unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing was there and nothing is made");
        // As a server leaves it that is killed between the last disk's end and its own.
        disks.make_mounts_dir().unwrap();
        fs::create_dir(root.path().join("one")).unwrap();
        disks.attach("one", DISK_MIN_BYTES).unwrap();
        disks.close().unwrap();
        assert_eq!(disks.names(), ["one"], "what is in use stays");
        unmount_all(&disks.place("one")).unwrap();
        fs::remove_dir(disks.place("one")).unwrap();
        disks.close().unwrap();
        assert!(!root.path().join(MOUNTS_DIR).exists());
    }

    #[test]
    fn a_file_still_open_is_waited_for() {
        if !nix::unistd::geteuid().is_root() {
            println!("left out: only root can mount images");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let disks = Disks::new(root.path());
        fs::create_dir(root.path().join("one")).unwrap();
        let place = disks.attach("one", DISK_MIN_BYTES).unwrap();
        let open = File::create(place.join("open")).unwrap();
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(open);
        });
        disks.detach("one").unwrap();
        closing.join().unwrap();
        assert_eq!(disks.names(), Vec::<String>::new());
    }
}
