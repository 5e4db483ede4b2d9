//! The sandbox's `/etc`: made, not the host's.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

const PASSWD: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                      agent:x:1000:1000:agent:/home/agent:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
const AGENT_USER: &str = "agent:x:1000:1000:agent:/home/agent:/bin/sh";
const AGENT_GROUP: &str = "agent:x:1000:";
const NSSWITCH: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n";
/// Files of the host that programs need and that hold no secret.
const COPIED: &[&str] = &["ld.so.cache", "services", "protocols", "ssl/openssl.cnf"];
/// Files that are laid over those of a root file system of the sandbox's own.
pub(super) const OVER_ROOT: &[(&str, &str)] = &[
    ("passwd", "/etc/passwd"),
    ("group", "/etc/group"),
    ("hosts", "/etc/hosts"),
    ("hostname", "/etc/hostname"),
    ("resolv.conf", "/etc/resolv.conf"),
];
const ACCOUNTS_MAX_BYTES: u64 = 1024 * 1024;

/// Makes the whole directory; made again, it is the same.
pub(super) fn make(etc: &Path, host_name: &str) -> io::Result<()> {
    make_directories(etc, &["", "alternatives", "ssl", "ssl/certs"])?;
    write(&etc.join("passwd"), PASSWD.as_bytes())?;
    write(&etc.join("group"), GROUP.as_bytes())?;
    write(&etc.join("nsswitch.conf"), NSSWITCH.as_bytes())?;
    write_names(etc, host_name)?;
    for name in COPIED {
        if let Ok(content) = fs::read(Path::new("/etc").join(name)) {
            write(&etc.join(name), &content)?;
        }
    }
    for (name, target) in [("os-release", "../usr/lib/os-release"), ("mtab", "/proc/mounts")] {
        match symlink(target, etc.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes only what is laid over a root file system's own `/etc`: its accounts with the agent's among them.
pub(super) fn make_over(etc: &Path, host_name: &str, root: &str) -> io::Result<()> {
    make_directories(etc, &[""])?;
    for (name, own) in [("passwd", AGENT_USER), ("group", AGENT_GROUP)] {
        let known = read_in_root(root, &format!("etc/{name}")).unwrap_or_default();
        write(&etc.join(name), with_agent(&known, own).as_bytes())?;
    }
    write_names(etc, host_name)
}

/// The accounts without others of the agent's name or number.
fn with_agent(known: &str, own: &str) -> String {
    let others = known.lines().filter(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next(), fields.nth(1));
        name.is_some_and(|name| !name.is_empty()) && name != Some("agent") && number != Some("1000")
    });
    others.chain([own]).flat_map(|line| [line, "\n"]).collect()
}

fn read_in_root(root: &str, path: &str) -> io::Result<String> {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(openat2(&root, path, flags, Mode::empty(), resolve)?);
    let mut text = String::new();
    file.take(ACCOUNTS_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn make_directories(etc: &Path, names: &[&str]) -> io::Result<()> {
    for name in names {
        let path = etc.join(name);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn write_names(etc: &Path, host_name: &str) -> io::Result<()> {
    let hosts = format!("127.0.0.1 localhost {host_name}\n::1 localhost\n");
    write(&etc.join("hosts"), hosts.as_bytes())?;
    write(&etc.join("hostname"), format!("{host_name}\n").as_bytes())?;
    write(&etc.join("resolv.conf"), b"")
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roots_own_accounts_stay_and_the_agent_is_among_them_once() {
        let known = "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/sh\nagent:x:7:7::/:/x\nwww:x:33:33::/:/x\n";
        let made = with_agent(known, AGENT_USER);
        assert_eq!(made, format!("root:x:0:0::/root:/bin/sh\nwww:x:33:33::/:/x\n{AGENT_USER}\n"));
        assert_eq!(with_agent("", AGENT_GROUP), "agent:x:1000:\n");
    }
}
