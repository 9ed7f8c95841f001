"""A web page, an HTML file or a PDF as Markdown that runs and loads nothing: see `article_page.read`."""
