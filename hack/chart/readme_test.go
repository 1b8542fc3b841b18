package main

import (
	"strings"
	"testing"
)

func TestReadme(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, want, wantError string }{
		"a value": {
			values: "# How many.\nreplicas: 2\n", want: "| `replicas` | `2` | How many. |\n",
		},
		"a comment of several lines": {
			values: "# How\n# many.\nreplicas: 2\n", want: "| How many. |\n",
		},
		"a comment on the file": {
			values: "# On the file.\n\n# How many.\nreplicas: 2\n", want: "| `replicas` | `2` | How many. |\n",
		},
		"a group": {
			values: "image:\n  # Which.\n  tag: dev\n", want: "| `image.tag` | `\"dev\"` | Which. |\n",
		},
		"a value that is a mapping": {
			values: "# What.\nlabels:\n  a: b\n", want: "| `labels` | `{\"a\":\"b\"}` | What. |\n",
		},
		"a value without a comment": {
			values: "# How many.\nreplicas: 2\nimage:\n  tag: dev\n", wantError: "line 4: image.tag has no comment",
		},
		"no mapping": {values: "[]", wantError: "no mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readme([]byte(c.values))
			if (err != nil) != (c.wantError != "") || err != nil && !strings.Contains(err.Error(), c.wantError) {
				t.Fatalf("error %v, want %q", err, c.wantError)
			}
			if !strings.Contains(string(got), c.want) {
				t.Errorf("got\n%s\nwant %q in it", got, c.want)
			}
		})
	}
}
