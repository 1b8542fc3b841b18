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
		Short: "Write all that deciding needs to one file",
		Long: `Write all that deciding needs to one file: nodes, pods, PodGroups, Queues and what else the scheduler
reads, the configuration of --config, and what groups go by of the Jobs and the like that it names. Every other subcommand takes it with --snapshot. What containers run (command,
environment, probes) is never in it; --redact leaves out annotations, images, addresses and messages as well. Names, labels
and amounts are always in it, since decisions depend on them.`,
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
	cmd.Flags().BoolVar(&redact, "redact", false, "Leave out what may tell of people and is not needed to decide.")
	return cmd
}
