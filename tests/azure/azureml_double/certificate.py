"""The service's certificate, signed by an authority of its own that clients are told to trust."""

from __future__ import annotations

import os
import ssl

import trustme

CA_FILE = "azureml-ca.pem"


def make_context(folder: str, *names: str) -> ssl.SSLContext:
    """A server's, with a certificate for these names and addresses; writes the authority's into the folder."""
    authority = trustme.CA(organization_name="Azure Machine Learning double")
    authority.cert_pem.write_to_path(os.path.join(folder, CA_FILE))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context
