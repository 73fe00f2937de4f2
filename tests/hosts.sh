#!/bin/sh
# Run a command on the first of several hosts that are network namespaces:
#
#     unshare --user --map-root-user --net --mount --pid --fork --mount-proc --kill-child \
#         tests/hosts.sh 2 mpiexec --host 10.0.0.1,10.0.0.2 hostname
#
# Each host has an address, a name, and shared memory of its own, and all are ports of one switch. mpiexec
# starts ranks on the others with /run/on in place of ssh. All ends with the first process of the command.
set -e
count=$1
shift

mount -t tmpfs tmpfs /run
cat >/run/on <<'END'
#!/bin/sh
host=$1
shift
exec nsenter --target "$(cat "/run/$host")" --net --uts --ipc --mount -- sh -c "$*"
END
chmod +x /run/on

ip link add switch type bridge
ip link set switch up
for number in $(seq "$count"); do
    unshare --net --uts --ipc --mount -- sh -c 'echo >/run/ready; exec sleep infinity' &
    pid=$!
    until [ -e /run/ready ]; do sleep 0.01; done
    rm /run/ready
    echo "$pid" >"/run/10.0.0.$number"
    ip link add "port$number" type veth peer name eth0 netns "$pid"
    ip link set "port$number" master switch up
    /run/on "10.0.0.$number" "hostname host$number
        mount -t tmpfs tmpfs /dev/shm
        ip address add 10.0.0.$number/24 dev eth0
        ip link set lo up
        ip link set eth0 up"
done
exec nsenter --target "$(cat /run/10.0.0.1)" --net --uts --ipc --mount --wd="$PWD" -- "$@"
