//! Images, and the loop devices that they are mounted by.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MKFS: &[&str] = &["/sbin/mkfs.ext4", "/usr/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4"];
const MOUNT: &[&str] = &["/bin/mount", "/usr/bin/mount"];
const UNSHARE: &[&str] = &["/usr/bin/unshare", "/bin/unshare"];
const OPTIONS: &str = "loop,nosuid,nodev,noatime,nodiscard";
const LOSETUP: &[&str] = &["/sbin/losetup", "/usr/sbin/losetup", "/usr/bin/losetup"];
/// Longest that one of the programs may take.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(1);

/// The name under which an image is made: one that was cut off is never taken for whole.
pub(super) fn unfinished(image: &Path) -> PathBuf {
    image.with_extension("new")
}

/// Makes an image with an empty file system. No journal and no reserve: it is thrown away after one use.
pub(super) fn format(image: &Path, size_bytes: u64) -> io::Result<()> {
    let unfinished = unfinished(image);
    File::create(&unfinished)?.set_len(size_bytes)?;
    let mut command = program(MKFS)?;
    command
        .args(["-q", "-F", "-O", "^has_journal,^resize_inode", "-m", "0"])
        .args(["-E", "lazy_itable_init=1,nodiscard,root_owner=0:0"])
        .arg(&unfinished);
    run(command)?;
    fs::rename(unfinished, image)
}

/// Mounts an image. The device is set to free itself with its last user from the start.
pub(super) fn mount(image: &Path, place: &Path) -> io::Result<()> {
    let mut command = program(MOUNT)?;
    command.args(["-n", "-t", "ext4", "-o", OPTIONS]).arg(image).arg(place);
    run(command)?;
    let _ = fs::remove_dir(place.join("lost+found"));
    Ok(())
}

/// Mounts an image for as long as it takes to see that it can be mounted.
pub(super) fn try_mount(image: &Path, place: &Path) -> io::Result<()> {
    let mut command = program(UNSHARE)?;
    command.args(["--mount", "--propagation", "private", "--", "mount", "-n", "-t", "ext4", "-o", OPTIONS]);
    command.arg(image).arg(place);
    run(command)
}

/// Every loop device in use and the file behind it.
pub(super) fn backing_files() -> Vec<(PathBuf, PathBuf)> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    devices
        .filter_map(|device| {
            let name = device.ok()?.file_name().into_string().ok().filter(|name| name.starts_with("loop"))?;
            let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
            let file = file.trim_end_matches('\n').trim_end_matches(" (deleted)");
            Some((Path::new("/dev").join(&name), PathBuf::from(file)))
        })
        .collect()
}

/// Waits until no loop device holds the image; one that was left without a mount is freed.
pub(super) fn await_freed(image: &Path, patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let held: Vec<PathBuf> =
            backing_files().into_iter().filter(|(_, file)| file == image).map(|(device, _)| device).collect();
        let Some(device) = held.first() else { return Ok(()) };
        if Instant::now() >= deadline {
            // Takes effect at once when nobody uses it, else with its last user.
            let mut command = program(LOSETUP)?;
            command.arg("-d").arg(device);
            let _ = run(command);
            return match backing_files().iter().any(|(_, file)| file == image) {
                true => {
                    Err(io::Error::other(format!("{} still holds {}", device.display(), image.display())))
                }
                false => Ok(()),
            };
        }
        std::thread::sleep(POLL);
    }
}

fn program(places: &[&str]) -> io::Result<Command> {
    let place = places.iter().find(|place| Path::new(place).is_file()).ok_or_else(|| {
        let name = places.first().and_then(|place| place.rsplit('/').next()).unwrap_or_default();
        io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed"))
    })?;
    let mut command = Command::new(place);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").current_dir("/");
    Ok(command)
}

fn run(mut command: Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let deadline = Instant::now() + PROGRAM_TIMEOUT;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} did not finish")));
        }
        std::thread::sleep(POLL);
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{name}: {}", words.trim())))
}
