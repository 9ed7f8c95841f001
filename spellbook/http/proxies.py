"""Headers by which a proxy or a tunnel before the server is known. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spellbook.system.lazy import regex

_OF_PROXIES = regex(
    r"""
    forwarded|via|cdn-loop  # standards: RFC 7239; RFC 9110, 7.6.3; RFC 8586
    |x-(?:forward|original-|real-|host|scheme|url-scheme|proxy|request-start)|front-end-https  # conventions
    |x-(?:envoy-|traefik-|replaced-path|varnish)  # proxies
    |cf-|zrok-|(?:x-)?(?:tailscale|ngrok)-|x-(?:pinggy|tunnel|ms|github)-  # tunnels
    |(?:x-)?akamai-|fastly-|cloudfront-|incap-|x-(?:amz-cf|amzn|appengine|goog|azure|arr|sucuri)-  # networks
    |fly-|x-(?:vercel|nf|railway)-  # hosts
    |remote-|x-(?:auth-request|remote|authentik|pomerium|webauth)-  # proxies that log people in
    |(?:.*-)?(?:forward\w*|(?:client|real|remote|socket|src|user)?ip(?:v[46])?|addr(?:ess)?)(?:-|$)  # an address in any
    """,
    re.A | re.X,
)
"""
How headers begin that a proxy or a tunnel adds, as the documents of each say: such a request may come from anywhere.

The last line also knows proxies that no other names, by their True-Client-IP or the like.
"""


def proxy_of(headers: Iterable[str]) -> str:
    """Return the name of the first header that a proxy added, "" if none did."""
    return next((name for name in headers if _OF_PROXIES.match(name.replace("_", "-"))), "")
