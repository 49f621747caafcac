from s2d_tf.paper import claims as claims, published as published
from s2d_tf.paper.archiving import archive as archive
from s2d_tf.paper.layout import paper_table as paper_table, tables_of as tables_of
from s2d_tf.paper.sections import report_sections as report_sections
