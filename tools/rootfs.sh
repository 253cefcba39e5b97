# Debian root file systems, for scripts that run things on other releases than this machine's. Sourced by bash; the
# caller defines `die`.
# shellcheck shell=bash

rootfs=${XDG_CACHE_HOME:-$HOME/.cache}/trireme/rootfs

need_roots() {
  [ "$(id -u)" = 0 ] || die "root file systems of other Debian releases need root: run this with sudo"
  command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
}

# The mirror this machine installs from.
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

# inside ROOT COMMAND... : runs a command in the root file system. The mounts live in a mount namespace that
# ends with the command, so no mount is ever left for `rm` to walk into, however the command ends.
inside() {
  local root=$1
  shift
  unshare --mount --propagation private -- bash -c '
    set -e
    root=$1; shift
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" "$@"' inside "$root" "$@"
}

make_root() {
  local release=$1 root=$rootfs/$1 from
  from=$(mirror)
  [ -n "$from" ] || die "found no Debian mirror in the sources of apt: run apt-get update first"
  mkdir -p "$rootfs"
  rm -rf --one-file-system "$root" "$root.new"
  debootstrap --variant=minbase "$release" "$root.new" "$from" >"$root.log" 2>&1 ||
    die "debootstrap $release failed: see $root.log"
  mv "$root.new" "$root"
}

# Debian 13 with PyTorch and OpenBLAS; sets root.
need_peers() {
  need_roots
  root=$rootfs/trixie
  [ -d "$root/usr" ] || { printf 'making a Debian 13 root file system\n'; make_root trixie; }
  local packages="python3-torch libopenblas0-pthread libblas3 liblapack3"
  # shellcheck disable=SC2086
  if [ "$(inside "$root" dpkg-query -W -f='${db:Status-Status}\n' $packages 2>/dev/null | grep -cx installed)" != 4 ]; then
    printf 'installing %s in it\n' "$packages"
    inside "$root" apt-get update -qq
    inside "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >"$rootfs/peers.log" 2>&1 ||
      die "apt failed: see $rootfs/peers.log"
  fi
  mkdir -p "$root/root/peers"
}
