package app

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// lintAnswer is the answer of the subcommand lint.
type lintAnswer struct {
	typed
	Mistakes []whatif.Mistake `json:"mistakes"`
}

func (a *asking) lintCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Find typos: labels that nothing reads, queues and classes that do not exist",
		Long: `Find likely mistakes in objects of the namespace, or of all: labels and annotations of reprieve.dev that nothing reads; names of
Queues, PriorityClasses and PodGroups that do not exist; resources that no node has. Each is listed with the name that was most
likely meant. Pods of other schedulers are left out.`,
		Example: "  kubectl reprieve lint -A",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.lint(cmd.Context(), shown, all)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, _ bool) error { return showLint(to, answer) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "In all namespaces, and of objects of none.")
	return cmd
}

func (a *asking) lint(ctx context.Context, shown *progress, all bool) (*lintAnswer, error) {
	namespace, err := a.namespace()
	if err != nil {
		return nil, err
	}
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	found, err := whatif.Lint(asked.objects, queueLabel(asked.cfg), profilesOf(asked.cfg))
	if err != nil {
		return nil, err
	}
	for _, lacking := range asked.groups.Unwritten() {
		found = append(found, whatif.Mistake{Object: lacking.Object, Namespace: lacking.Key.Namespace, Kind: "NoPodGroup", Message: "no PodGroup can be made for it: " + lacking.Why})
	}
	if !all {
		found = slices.DeleteFunc(found, func(m whatif.Mistake) bool { return m.Namespace != namespace })
	}
	answer := &lintAnswer{typed: typed{APIVersion: answerVersion, Kind: "Lint", Taken: asked.objects.Taken.UTC()}, Mistakes: found}
	if answer.Mistakes == nil {
		answer.Mistakes = []whatif.Mistake{}
	}
	return answer, nil
}

// profilesOf returns the schedulerNames of a configuration.
func profilesOf(cfg *config.KubeSchedulerConfiguration) []string {
	out := make([]string, len(cfg.Profiles))
	for i := range cfg.Profiles {
		out[i] = cfg.Profiles[i].SchedulerName
	}
	return out
}

func showLint(to io.Writer, answer *lintAnswer) error {
	if len(answer.Mistakes) == 0 {
		_, err := io.WriteString(to, "No mistakes found.\n")
		return err
	}
	rows := [][]string{{"OBJECT", "MISTAKE", "MESSAGE"}}
	for _, m := range answer.Mistakes {
		rows = append(rows, []string{m.Object, m.Kind, m.Message})
	}
	if err := table(to, rows); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}
