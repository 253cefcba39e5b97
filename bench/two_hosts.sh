# Two emulated hosts, network namespaces joined at a rate; needs root. For scripts of bench/ that source it:
#   two_hosts 1gbit      makes them and the folder $work; both go when the script ends
#   on_host 0 COMMAND    runs a command there; host i has the address 10.213.0.$((i + 1))
#   set_rate 10mbit      another rate of the wire, both ways
#   sent_by 0            bytes that left the host
two_hosts() {
  local i
  hosts=(trireme-$$-a trireme-$$-b)
  work=$(mktemp -d)
  trap 'for host in "${hosts[@]}"; do ip netns del "$host" 2>/dev/null || true; done; rm -r "$work"' EXIT
  for i in 0 1; do ip netns add "${hosts[i]}"; done
  ip link add wire netns "${hosts[0]}" type veth peer name wire netns "${hosts[1]}"
  for i in 0 1; do
    on_host $i ip link set lo up
    on_host $i ip address add "10.213.0.$((i + 1))/24" dev wire
    on_host $i ip link set wire up
  done
  set_rate "$1"
}

# A burst passes without limit, so that slow wires have a small one.
set_rate() {
  local i burst=256kb
  case $1 in *gbit) ;; *) burst=64kb ;; esac
  for i in 0 1; do on_host $i tc qdisc replace dev wire root tbf rate "$1" burst $burst latency 100ms; done
}

on_host() { ip netns exec "${hosts[$1]}" "${@:2}"; }

sent_by() { on_host "$1" cat /sys/class/net/wire/statistics/tx_bytes; }
