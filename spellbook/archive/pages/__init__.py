"""
Pages: a web page, an HTML file or a PDF as Markdown that runs and loads nothing.

`source.read` is the way in. Nothing here knows of notes or writes a file.
"""
