"""Which addresses of the internet may be called for a model: those of public servers, no others.

A page that a model is led to must not reach this machine, its network, or the services that clouds
run at fixed addresses. Tables: IANA's special-purpose address registries for IPv4 and IPv6, and
the multicast ranges; `ipaddress.is_global` lets several of them through. An IPv6 address that
carries an IPv4 address counts as public only where that one is, and where the wrapping is in use.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by carriers; Alibaba's metadata is 100.100.100.200
            "127.0.0.0/8",  # this machine
            "168.63.129.16/32",  # Azure's platform service
            "169.254.0.0/16",  # this link; metadata of most clouds is 169.254.169.254
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; Oracle's metadata is 192.0.0.192
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
OPEN_6 = IPv6Network("2000::/3")  # all that is given out; every other range is special
CLOSED_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: how IPv4 servers look from networks without IPv4
ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214, 6.1: then follows an IPv4 address


def public(address: Address) -> bool:
    """Whether this is the address of a public server.

    >>> public(ip_address("93.184.216.34")), public(ip_address("::ffff:127.0.0.1"))
    (True, False)
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in CLOSED_4)
    inner = IPv4Address(int(address) & 0xFFFFFFFF)
    if address in NAT64:
        return public(inner)
    if (int(address) >> 32) & 0xFFFFFFFF in ISATAP and not public(inner):
        return False
    return address in OPEN_6 and not any(address in network for network in CLOSED_6)


def read(text: str) -> Address:
    """The address that a resolver gave; a zone (`fe80::1%eth0`) is part of it."""
    return ip_address(text)
