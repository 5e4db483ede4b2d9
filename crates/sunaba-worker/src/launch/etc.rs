//! The sandbox's `/etc`: made, not the host's.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

const PASSWD: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                      agent:x:1000:1000:agent:/home/agent:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
const NSSWITCH: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n";
/// Files of the host that programs need and that hold no secret.
const COPIED: &[&str] = &["ld.so.cache", "services", "protocols", "ssl/openssl.cnf"];

/// Makes the directory; made again, it is the same.
pub(super) fn make(etc: &Path, host_name: &str) -> io::Result<()> {
    for dir in ["", "alternatives", "ssl", "ssl/certs"] {
        let path = etc.join(dir);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let hosts = format!("127.0.0.1 localhost {host_name}\n::1 localhost\n");
    let written = [
        ("passwd", PASSWD),
        ("group", GROUP),
        ("nsswitch.conf", NSSWITCH),
        ("hosts", &hosts),
        ("hostname", &format!("{host_name}\n")),
        ("resolv.conf", ""),
    ];
    for (name, content) in written {
        write(&etc.join(name), content.as_bytes())?;
    }
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

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}
