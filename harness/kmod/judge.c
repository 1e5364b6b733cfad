// SPDX-License-Identifier: GPL-2.0-or-later
#include "judge.h"

#include "common/replay.h"
#include "readings.h"
#include "records.h"

#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

static bool read_lines(char *text, struct series *series)
{
	char *line;

	while ((line = strsep(&text, "\n")))
		if (*line && !replay_line(line, series))
			return false;
	return replay_whole(series);
}

int judge(char *text)
{
	struct workspace *room = kvzalloc(sizeof(*room), GFP_KERNEL);
	int error = -EINVAL;
	bool held;

	if (!room)
		return -ENOMEM;
	if (read_lines(text, &room->series)) {
		held = series_judge(&room->series, &room->reading);
		records_clear();
		record_open();
		record_string("record", "judge");
		record_string("id", "judge");
		record_integer("held", held);
		readings_one(&room->reading);
		record_integer("doubtful", room->reading.doubtful);
		record_string("refused", room->reading.refused);
		error = record_close();
	}
	kvfree(room);
	return error;
}
