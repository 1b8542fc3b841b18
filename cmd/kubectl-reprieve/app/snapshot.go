package app

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

func (a *asking) snapshotCommand() *cobra.Command {
	redact := false
	cmd := &cobra.Command{
		Use:   "snapshot > FILE",
		Short: "Write the inputs of decisions to one file",
		Long: `Write the inputs of decisions to one file: nodes, pods, PodGroups, Queues, the other objects that the scheduler reads, and
the configuration of --config. The file also has the fields of Jobs and other owners that groups are derived from. All other
subcommands read the file with --snapshot. The file never has commands, environments or probes of containers. --redact leaves out
annotations, images, addresses and messages as well. Names, labels and amounts are always in the file, because decisions depend on
them.`,
		Example: "  kubectl reprieve snapshot --redact > cluster.json\n  kubectl reprieve plan -f job.yaml --snapshot cluster.json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			objects, _, err := a.readAll(cmd.Context(), shown)
			shown.end()
			if err != nil {
				return err
			}
			if a.configuration != "" {
				text, err := os.ReadFile(a.configuration)
				if err != nil {
					return err
				}
				objects.Configuration = string(text)
			}
			if redact {
				if objects, err = inventory.Redact(objects, grouping.Annotations()...); err != nil {
					return err
				}
			}
			if isTerminal(a.streams.Out) {
				return usage(fmt.Errorf("a snapshot is for a file: %s > FILE", cmd.CommandPath()))
			}
			return inventory.Write(a.streams.Out, objects)
		},
	}
	cmd.Flags().BoolVar(&redact, "redact", false, "Leave out data that may identify people and that decisions do not need.")
	return cmd
}
