# What surrounds the attempts that are made as root of a user namespace: the addresses of others on its
# own loopback device, listeners on them, a proxy without rules, and a read-only mount.
set -e
ip link set lo up
for address in 169.254.169.254 10.11.12.13 "$HOST_IP"; do
    ip addr add "$address/32" dev lo
done
RO_PATH=$(mktemp -d)
mount --bind "$RO_PATH" "$RO_PATH"
mount -o remount,bind,ro "$RO_PATH"
export RO_PATH
coproc LISTENERS { exec /usr/bin/python3 "$LIB/victim.py" "$CANARY" "" "" "$PORT,80,3128"; }
read -r _ <&"${LISTENERS[0]}"
unset CANARY
bash "$LIB/driver.sh" "$LIB" without namespace-root
exec {LISTENERS[1]}>&-
