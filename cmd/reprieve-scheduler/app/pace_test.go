package app

import (
	"os"
	"path/filepath"
	"testing"
)

// TestIsRateConfigured: only a rate that somebody has written counts, not the library's own.
func TestIsRateConfigured(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for name, c := range map[string]struct {
		args []string
		file string
		want bool
	}{
		"nothing said":                 {},
		"a flag":                       {args: []string{"--kube-api-qps=50"}, want: true},
		"the other flag":               {args: []string{"--kube-api-burst=7"}, want: true},
		"a file without":               {file: head},
		"a file with another field":    {file: head + "clientConnection: {kubeconfig: k}\n"},
		"a file with a rate":           {file: head + "clientConnection: {qps: 50}\n", want: true},
		"a file with a burst":          {file: head + "clientConnection: {burst: 100}\n", want: true},
		"a file that bounds nothing":   {file: head + "clientConnection: {qps: -1}\n", want: true},
		"a flag that is not looked at": {args: []string{"--kube-api-qps=50"}, file: head},
		"a file that is JSON":          {file: `{"clientConnection": {"qps": 5}}`, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := NewOptions()
			if err := opts.Flags.FlagSet("deprecated").Parse(c.args); err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				opts.ConfigFile = filepath.Join(t.TempDir(), "config.yaml")
				if err := os.WriteFile(opts.ConfigFile, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := isRateConfigured(opts); err != nil || got != c.want {
				t.Errorf("It is %t (%v), want %t", got, err, c.want)
			}
		})
	}
}
