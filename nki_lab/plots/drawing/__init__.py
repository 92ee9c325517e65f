"""Bokeh figures of the columns of charts. Only this package imports bokeh."""
