# One memory for every client, in a container: see docs/server.md.
ARG PYTHON=docker.io/library/python:3.13-slim

FROM ${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY spellbook spellbook
COPY vault vault
RUN python -m venv /opt/spellbook \
    && /opt/spellbook/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt .
# The bundled models' fast form: a container then embeds within a second of its first start, on a read-only root too.
RUN SPELLBOOK_CACHE=/opt/spellbook/share/spellbook /opt/spellbook/bin/python -c \
    "from spellbook.http.container import prepare_models; prepare_models()"

FROM ${PYTHON}
COPY --from=build /opt/spellbook /opt/spellbook
# Any user may own the volume: --user names another one.
RUN mkdir /data && chown 1000:1000 /data
ENV PATH=/opt/spellbook/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/data \
    SPELLBOOK_CONTAINER=1
USER 1000:1000
WORKDIR /data
VOLUME /data
EXPOSE 17950
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as web; \
web.urlopen('http://127.0.0.1:' + os.environ.get('SPELLBOOK_PORT', '17950') + '/health', timeout=4)"]
CMD ["spellbook", "serve", "--container"]
