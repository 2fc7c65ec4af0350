/* What the compiler, the system and the processor are, as PLATFORM_ names. */
#ifndef _INCLUDED_GASNET_PORTABLE_PLATFORM_H
#define _INCLUDED_GASNET_PORTABLE_PLATFORM_H

#if defined(__clang__)
#define PLATFORM_COMPILER_CLANG 1
#define PLATFORM_COMPILER_FAMILYNAME CLANG
#define PLATFORM_COMPILER_FAMILYID 19
#else
#define PLATFORM_COMPILER_GNU 1
#define PLATFORM_COMPILER_FAMILYNAME GNU
#define PLATFORM_COMPILER_FAMILYID 1
#endif
#ifdef __cplusplus
#define PLATFORM_COMPILER_CXX_LANG 1
#else
#define PLATFORM_COMPILER_C_LANG 1
#endif
#define PLATFORM_COMPILER_VERSION_STR __VERSION__
#define PLATFORM_COMPILER_IDSTR __VERSION__
#define PLATFORM_COMPILER_VERSION_GT(maj, min, pat) PLATFORM_COMPILER_VERSION_AT(>, maj, min, pat)
#define PLATFORM_COMPILER_VERSION_GE(maj, min, pat) PLATFORM_COMPILER_VERSION_AT(>=, maj, min, pat)
#define PLATFORM_COMPILER_VERSION_LT(maj, min, pat) PLATFORM_COMPILER_VERSION_AT(<, maj, min, pat)
#define PLATFORM_COMPILER_VERSION_LE(maj, min, pat) PLATFORM_COMPILER_VERSION_AT(<=, maj, min, pat)
#if defined(__clang__)
#define PLATFORM_COMPILER_VERSION (__clang_major__ * 10000 + __clang_minor__ * 100 + __clang_patchlevel__)
#else
#define PLATFORM_COMPILER_VERSION (__GNUC__ * 10000 + __GNUC_MINOR__ * 100 + __GNUC_PATCHLEVEL__)
#endif
#define PLATFORM_COMPILER_VERSION_AT(is, maj, min, pat)                                                             \
  (PLATFORM_COMPILER_VERSION is((maj)*10000 + (min)*100 + (pat)))
#define PLATFORM_OS_LINUX 1
#define PLATFORM_OS_FAMILYNAME LINUX
#if defined(__x86_64__)
#define PLATFORM_ARCH_X86_64 1
#define PLATFORM_ARCH_FAMILYNAME X86_64
#elif defined(__aarch64__)
#define PLATFORM_ARCH_AARCH64 1
#define PLATFORM_ARCH_FAMILYNAME AARCH64
#endif
#define PLATFORM_ARCH_64 1
#define PLATFORM_ARCH_LITTLE_ENDIAN 1

#endif
