/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The formats; each is defined in the file of its name. */
#pragma once

#include "export/export.h"

extern const struct export_ops export_chrome;
extern const struct export_ops export_speedscope;
extern const struct export_ops export_perfetto;
extern const struct export_ops export_firefox;
extern const struct export_ops export_folded;
extern const struct export_ops export_flame;
extern const struct export_ops export_pprof;
extern const struct export_ops export_csv;
extern const struct export_ops export_jsonl;
extern const struct export_ops export_sqlite;
extern const struct export_ops export_parquet;
extern const struct export_ops export_otlp;
