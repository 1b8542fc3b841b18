package app

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// rightFor returns the permission that a remedy needs if it changes cluster-scoped objects of a
// kind; nil for other remedies.
func rightFor(kind string) *authorizationv1.ResourceAttributes {
	switch kind {
	case whatif.Uncordon:
		return &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}
	case whatif.AddNodes:
		return &authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes"}
	case whatif.RaiseLimit, whatif.RaiseQuota:
		return &authorizationv1.ResourceAttributes{Verb: "patch", Group: v1alpha1.GroupName, Resource: "queues"}
	default:
		return nil
	}
}

// reviewRemedies asks the API server which remedies the caller may apply, and puts these first.
// Each review is a SelfSubjectAccessReview, as in "kubectl auth can-i": it changes nothing. With a
// snapshot there is no caller to ask about. If a review fails, the remedy counts as one for
// administrators.
func (a *asking) reviewRemedies(ctx context.Context, remedies []whatif.Remedy) {
	if a.snapshot == "" {
		a.reviewAtServer(ctx, remedies)
	}
	slices.SortStableFunc(remedies, func(x, y whatif.Remedy) int {
		switch {
		case x.ByAdministrators == y.ByAdministrators:
			return 0
		case y.ByAdministrators:
			return -1
		default:
			return 1
		}
	})
}

func (a *asking) reviewAtServer(ctx context.Context, remedies []whatif.Remedy) {
	config, err := a.kube.ToRESTConfig()
	if err != nil {
		return
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return
	}
	allowed := make(map[authorizationv1.ResourceAttributes]bool)
	for i := range remedies {
		right := rightFor(remedies[i].Kind)
		if right == nil {
			continue
		}
		may, known := allowed[*right]
		if !known {
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right},
			}, metav1.CreateOptions{})
			may = err == nil && review.Status.Allowed
			allowed[*right] = may
		}
		remedies[i].ByAdministrators = !may
	}
}
