/* SPDX-License-Identifier: MIT */
/* Steps of calls: see step.h. */
#define _GNU_SOURCE
#include "mcp/step.h"

#include <stdlib.h>

void step_init(struct step *step)
{
	*step = (struct step){.kind = STEP_NONE};
	spec_init(&step->spec);
}

void step_free(struct step *step)
{
	spec_free(&step->spec);
	free(step->image);
	free(step->language);
	json_decref(step->packages);
	json_decref(step->request);
	*step = (struct step){.kind = STEP_NONE};
}

void step_move(struct step *step, struct step *ret)
{
	*ret = *step;
	*step = (struct step){.kind = STEP_NONE};
}
