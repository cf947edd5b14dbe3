/* fake_cupti.h - what the fake driver tells the fake CUPTI. Not part of CUPTI. */
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H
#include <stdint.h>
uint64_t fake_cupti_now(void); /* CUPTI's clock, ns */
void fake_cupti_api(int driver, uint32_t cbid, uint64_t start, uint64_t end, uint32_t corr, uint32_t result);
void fake_cupti_kernel(const char *name, uint64_t start, uint64_t end, uint32_t corr, uint32_t device, uint32_t stream);
void fake_cupti_copy(unsigned kind, unsigned src, unsigned dst, uint64_t bytes, uint64_t start, uint64_t end, uint32_t corr,
                     uint32_t device, uint32_t stream);
void fake_cupti_set(uint64_t bytes, uint64_t start, uint64_t end, uint32_t corr, uint32_t device, uint32_t stream);
void fake_cupti_sync(unsigned type, uint64_t start, uint64_t end, uint32_t corr, uint32_t stream);
/* Another profiler in the job (as torch.profiler does it): takes the callbacks, enables kernels; ends again.
 * fake_cupti_other_end returns the kernels that it saw. */
void fake_cupti_other_begin(void);
unsigned long fake_cupti_other_end(void);
#endif
