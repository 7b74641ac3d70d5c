"""NTRIP client: corrections from a caster on the internet, as a sans-IO protocol over a TCP or TLS
port."""
