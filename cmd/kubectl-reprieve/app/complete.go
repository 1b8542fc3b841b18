package app

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

const (
	// completionTimeout is the longest time that a shell waits for completions.
	completionTimeout = 3 * time.Second
	// mostCompleted is the maximum number of names that a completion reads from a cluster.
	mostCompleted = 500
)

// completeWork completes the argument POD or KIND/NAME in a shell. It leaves out objects that the
// caller cannot read.
func (a *asking) completeWork(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	kind, prefix := "pod", ""
	if word, _, slashed := strings.Cut(begun, "/"); slashed {
		kind, prefix = word, word+"/"
	}
	of, known := kindNamed(kind)
	if !known {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range a.names(ctx, &of) {
		if strings.HasPrefix(prefix+name, begun) {
			out = append(out, prefix+name)
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, kind := range workKinds() {
		// Most clusters have no objects of the rare kinds. Offer a rare kind only after the user
		// has typed its first letter.
		if word := kind.singular() + "/"; prefix == "" && word != "pod/" && strings.HasPrefix(word, begun) && (begun != "" || !kind.rare) {
			out = append(out, word)
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	slices.Sort(out)
	return out, directive
}

// names returns the names of the objects of a kind in the namespace. If the caller cannot read the
// objects, it returns nil.
func (a *asking) names(ctx context.Context, of *workKind) []string {
	namespace, err := a.namespace()
	if err != nil {
		return nil
	}
	var out []string
	if a.snapshot != "" {
		objects, err := a.read(ctx, newProgress(io.Discard, a.clock))
		if err != nil {
			return nil
		}
		for _, object := range objects.Objects(of.stored()) {
			if object.Namespace == namespace {
				out = append(out, object.Name)
			}
		}
		return out
	}
	rest, err := a.kube.ToRESTConfig()
	if err != nil {
		return nil
	}
	client, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil
	}
	list, err := client.Resource(of.GroupVersion().WithResource(of.resource)).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: mostCompleted})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		out = append(out, list.Items[i].GetName())
	}
	return out
}
