"""The sources of the site: the documents with what their blocks print, and pages made of the declarations.

`python -m scripts.pages FOLDER` writes them; `make docs` hands them to Sphinx and checks the result.
"""
